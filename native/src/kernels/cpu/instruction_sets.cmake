# One translation unit per instruction set, chosen at run time. Only these files may use wider instructions than the
# baseline: anything inline that they share with others would otherwise leak into code that runs everywhere.

from conan import ConanFile
from conan.tools.build import can_run, check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class Kael(ConanFile):
    name = "kael"
    description = "Tensors and GPT-2 in C++20 behind a C ABI"
    license = "MIT"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "with_benchmarks": [True, False],
        "with_fuzzers": [True, False],
        "sanitizer": ["none", "address", "thread"],
    }
    default_options = {"with_benchmarks": False, "with_fuzzers": False, "sanitizer": "none"}
    exports = "VERSION"
    exports_sources = (
        "CMakeLists.txt",
        "VERSION",
        "LICENSE",
        "cmake/*",
        "native/*",
        "tests/*",
        "fuzz/*",
        "py/kael/models/starter/*",  # what the tests of the installed package generate with
        "!tests/py/*",  # they need the package in py
        "!tests/server/*",
        "!*/build/*",
    )

    def set_version(self):
        self.version = load(self, f"{self.recipe_folder}/VERSION").strip()

    def requirements(self):
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)

    def build_requirements(self):
        self.test_requires("gtest/[>=1.12 <2]")
        if self.options.with_benchmarks:
            self.test_requires("benchmark/[>=1.7 <2]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        # Not cmake_layout: `-of build/<preset>` is the preset's own tree; CMakeLists.txt looks there.
        self.folders.build = "."
        self.folders.generators = "conan"

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(
            variables={
                "KAEL_BUILD_BENCHMARKS": bool(self.options.with_benchmarks),
                "KAEL_BUILD_FUZZERS": bool(self.options.with_fuzzers),
                "KAEL_BUILD_TESTS": not self.options.with_fuzzers,
                "KAEL_ENABLE_SANITIZERS": self.options.sanitizer == "address",
                "KAEL_ENABLE_TSAN": self.options.sanitizer == "thread",
            }
        )
        cmake.build()
        if can_run(self):
            cmake.ctest(["--output-on-failure"])

    def package(self):
        copy(self, "LICENSE", self.source_folder, f"{self.package_folder}/licenses")
        CMake(self).install()

    def package_info(self):
        # The package brings its own CMake configuration; the rest is for other build systems.
        self.cpp_info.set_property("cmake_find_mode", "none")
        cpp, capi = self.cpp_info.components["kael"], self.cpp_info.components["capi"]
        cpp.builddirs = ["lib/cmake/kael"]
        cpp.libs = ["kael_core"]
        capi.libs = ["kael"]
        if self.settings.os == "Linux":
            cpp.system_libs = ["pthread"]

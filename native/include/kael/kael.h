/*
 * kael.h: the C interface of libkael, and its only binary interface. C99.
 *
 * Conventions
 *  1. A function that can fail returns a kael_status; results come through pointers, which are
 * written only on success.
 *  2. kael_last_error() holds the text of the last failure on the calling thread.
 *  3. Strings and buffers are (pointer, length in bytes or elements); text may hold any byte,
 * U+0000 included. Paths are the bytes that the operating system uses.
 *  4. A handle is owned by whoever received it and freed once by the matching *_free; freeing NULL
 * does nothing.
 *  5. Two threads may use two handles at the same time, always. One handle is used by one thread at
 * a time, unless its comment says more.
 *  6. Structs begin with struct_size = sizeof the struct, so that a newer caller and an older
 * library still agree; the
 *     *_default functions set it. Fields are only ever added at the end.
 *  7. Callbacks receive the user_data given with them, run on the calling thread, and are made with
 * no lock held.
 *  8. Nothing here prints, aborts or exits. Passing a NULL where it is not said to be allowed is
 * KAEL_INVALID_ARGUMENT.
 */
#ifndef KAEL_KAEL_H
#define KAEL_KAEL_H

#include <stdint.h>

#if defined(_WIN32)
#if defined(KAEL_BUILDING_LIBRARY)
#define KAEL_API __declspec(dllexport)
#else
#define KAEL_API __declspec(dllimport)
#endif
#else
#define KAEL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and errors
 * ------------------------------------------------------------------------------------------ */

/* Grows whenever a caller compiled against an older header would misbehave. */
#define KAEL_ABI_VERSION 2

typedef int32_t kael_status;
enum {
    KAEL_OK = 0,
    KAEL_INVALID_ARGUMENT = 1, /* a value outside what the function's comment allows */
    KAEL_NOT_FOUND = 2,        /* a file, folder or name that does not exist */
    KAEL_IO_ERROR = 3,         /* the operating system refused to open, read, map or write */
    KAEL_INVALID_FILE =
        4, /* a file whose content breaks its format, or disagrees with another file */
    KAEL_UNSUPPORTED = 5, /* valid, but something that this build or version does not do */
    KAEL_OUT_OF_MEMORY = 6,
    KAEL_CALLBACK_FAILED = 7, /* a callback answered that it failed */
    KAEL_INTERNAL = 8,        /* a bug in kael */
    KAEL_ANOMALY = 9          /* what kael_set_anomaly_detection was told to find */
};

/* KAEL_ABI_VERSION of the library. Callers compare it before any other call. */
KAEL_API int32_t kael_abi_version(void);

/* "MAJOR.MINOR.PATCH", static storage. */
KAEL_API const char* kael_version(void);

/* One line about the build and the instruction set in use, e.g. "x86-64-v4, gcc 12.2.0, Release";
 * static storage. */
KAEL_API const char* kael_build_info(void);

/*
 * Text of the last failure on this thread, in UTF-8: "kael error at FILE:LINE: check 'CONDITION'
 * failed: MESSAGE". Empty before the first failure. Valid until the next failing call on this
 * thread. `length` may be NULL.
 */
KAEL_API const char* kael_last_error(int64_t* length);

/* The MESSAGE part alone: what was wrong, what was expected, where. The same lifetime. */
KAEL_API const char* kael_last_error_message(int64_t* length);

/* After KAEL_ANOMALY, what was found, as the JSON object that docs/debugging.md describes; else
 * empty. The same lifetime. */
KAEL_API const char* kael_last_anomaly(int64_t* length);

/* ---- Process-wide settings
 * --------------------------------------------------------------------------------------- */

/*
 * Threads for one call, 1 to 256. The default is KAEL_NUM_THREADS, else the number of processors
 * the process may use. Results do not depend on it. Any thread, also while others compute: the
 * product or token that they are at keeps its count, and what comes next has the new one.
 */
KAEL_API kael_status kael_set_num_threads(int32_t count);
/* 0 when KAEL_NUM_THREADS is not such a number; kael_last_error() says so. */
KAEL_API int32_t kael_get_num_threads(void);

/* What float32 matrices are multiplied in: float32, or bfloat16 with float32 sums, where the
 * processor has instructions for it and the matrices are large. Of the whole process, highest at
 * first. Any thread; a product that is being computed keeps what it began with. */
typedef int32_t kael_matmul_precision;
enum { KAEL_MATMUL_HIGHEST = 0, KAEL_MATMUL_MEDIUM = 1 };
KAEL_API kael_status kael_set_float32_matmul_precision(kael_matmul_precision precision);
KAEL_API kael_matmul_precision kael_get_float32_matmul_precision(void);

/* Restarts the stream that random weights, dropout and unseeded generations draw from. Any thread.
 */
KAEL_API void kael_manual_seed(uint64_t seed);

/* Where that stream is. What is drawn after kael_set_random_state with the two numbers is what
 * would have been drawn after kael_random_state gave them. Any thread. */
KAEL_API kael_status kael_random_state(uint64_t* seed, uint64_t* position);
KAEL_API void kael_set_random_state(uint64_t seed, uint64_t position);

/* 1 when freed blocks are kept for reuse; 0 after KAEL_NO_CACHING_ALLOCATOR (environment or build).
 */
KAEL_API uint8_t kael_caching_allocator_enabled(void);

/* ---- Tensors
 * -----------------------------------------------------------------------------------------------------
 */

#define KAEL_MAX_RANK 16

typedef int32_t kael_dtype;
enum {
    KAEL_FLOAT32 = 0,
    KAEL_FLOAT64 = 1,
    KAEL_FLOAT16 = 2,
    KAEL_BFLOAT16 = 3,
    KAEL_INT64 = 4,
    KAEL_INT32 = 5,
    KAEL_INT8 = 6,
    KAEL_UINT8 = 7,
    KAEL_BOOL = 8
};

typedef struct kael_tensor kael_tensor;

typedef struct kael_tensor_info {
    int64_t struct_size;
    kael_dtype dtype;
    int32_t rank;                   /* 0 to KAEL_MAX_RANK */
    int64_t shape[KAEL_MAX_RANK];   /* the first `rank` entries */
    int64_t strides[KAEL_MAX_RANK]; /* in elements */
    int64_t offset;                 /* of the first element in its storage, in elements */
    int64_t element_count;
    int64_t byte_count;    /* element_count * size of an element */
    void* data;            /* first element; NULL when element_count is 0 */
    uint8_t is_contiguous; /* row-major without gaps */
    uint8_t is_read_only;  /* the memory must not be written: it belongs to a mapped file */
} kael_tensor_info;

/* Copies `byte_count` bytes in row-major order into a new tensor; byte_count must be what dtype and
 * shape need. */
KAEL_API kael_status kael_tensor_from_bytes(kael_dtype dtype, const int64_t* shape, int32_t rank,
                                            const void* bytes, int64_t byte_count,
                                            kael_tensor** tensor);

/* Called once, when what was handed over with `user_data` is used no more, on whatever thread that
 * is. */
typedef void (*kael_release_callback)(void* user_data);

/*
 * A tensor on memory of the caller, without a copy: the element at index i stands at data + (i[0] *
 * strides[0] + ...) elements. Strides are 0 or more, `data` is aligned for the dtype, and no
 * element ends beyond byte_count. The memory must stay until `release` is called, which is not
 * after a failure. With read_only not 0 the tensor refuses writes.
 */
KAEL_API kael_status kael_tensor_from_memory(kael_dtype dtype, const int64_t* shape,
                                             const int64_t* strides, int32_t rank, void* data,
                                             int64_t byte_count, uint8_t read_only,
                                             kael_release_callback release, void* user_data,
                                             kael_tensor** tensor);

/*
 * DLPack (https://dmlc.github.io/dlpack): memory that libraries share without a copy. *managed is a
 * DLManagedTensorVersioned of version 1, or with versioned 0 a DLManagedTensor, which refuses
 * read-only memory; it keeps the memory until its deleter is called, on any thread. `is_copied`
 * says that nobody else sees the memory.
 */
KAEL_API kael_status kael_tensor_to_dlpack(const kael_tensor* tensor, uint8_t versioned,
                                           uint8_t is_copied, void** managed);
/* Takes over such a struct of any library, which is given back with the last tensor on it, and also
 * when this fails. Memory of the CPU, elements of a kael_dtype, no negative strides. */
KAEL_API kael_status kael_tensor_from_dlpack(void* managed, uint8_t versioned,
                                             kael_tensor** tensor);

/* PyCapsule_IsValid and PyCapsule_GetPointer of Python's C interface, which this library is not
 * linked with; and a destructor for capsules, which needs them: it gives back what a capsule named
 * "dltensor" or "dltensor_versioned" carries and nobody has consumed. */
typedef int32_t (*kael_capsule_is_valid)(void* capsule, const char* name);
typedef void* (*kael_capsule_pointer)(void* capsule, const char* name);
KAEL_API void kael_dlpack_set_capsule_functions(kael_capsule_is_valid is_valid,
                                                kael_capsule_pointer pointer);
KAEL_API void kael_dlpack_end_capsule(void* capsule);

/* Fills `info`, whose struct_size the caller has set. `data` stays valid while the handle, or a
 * view of it, lives. */
KAEL_API kael_status kael_tensor_describe(const kael_tensor* tensor, kael_tensor_info* info);

/* The same memory with another shape of as many elements, in a new handle; a layout that would need
 * a copy is an error. */
KAEL_API kael_status kael_tensor_view(const kael_tensor* tensor, const int64_t* shape, int32_t rank,
                                      kael_tensor** view);

/* May be called from any thread, also from a finalizer. */
KAEL_API void kael_tensor_free(kael_tensor* tensor);

/* ---- Operators
 * ---------------------------------------------------------------------------------------------------
 */

typedef int32_t kael_argument_kind;
enum {
    KAEL_ARGUMENT_NONE = 0, /* left out: the operator's default */
    KAEL_ARGUMENT_TENSOR = 1,
    KAEL_ARGUMENT_TENSORS = 2, /* tensors[0] to tensors[count - 1] */
    KAEL_ARGUMENT_BOOL = 3,    /* `integer`, 0 or 1 */
    KAEL_ARGUMENT_INTEGER = 4, /* a dtype too */
    KAEL_ARGUMENT_REAL = 5,
    KAEL_ARGUMENT_INTEGERS = 6 /* integers[0] to integers[count - 1]; of a text its bytes */
};

/* One argument of an operator: the kind, and the fields that it names. Never grows. */
typedef struct kael_argument {
    kael_argument_kind kind;
    int64_t count;
    kael_tensor* tensor;
    kael_tensor** tensors;
    const int64_t* integers;
    int64_t integer;
    double real;
} kael_argument;

/*
 * Applies the operator of that name (docs/tensors.md lists all, with their arguments in order) and
 * writes its results, new handles, to results[0] on; *count is how many there are. More results
 * than `capacity` are an error. A name that ends in "_" writes its first argument and has no
 * results. Tensors that an operator only reads may be read by other threads at the same time.
 * Promotion of dtypes and broadcasting of shapes are part of the operator; a number is promoted as
 * a number and not as a tensor.
 */
KAEL_API kael_status kael_apply(const char* name, int64_t name_length,
                                const kael_argument* arguments, int64_t argument_count,
                                kael_tensor** results, int64_t capacity, int64_t* count);

/* The names of all operators, by index in [0, *count). Static storage. */
KAEL_API void kael_operator_count(int64_t* count);
KAEL_API kael_status kael_operator_name(int64_t index, const char** name, int64_t* name_length);

/* ---- Data sets
 * ---------------------------------------------------------------------------------------------------
 */

/* uint8 [images, rows, columns] of the bytes of an IDX file of images, and uint8 [labels] of one of
 * labels. `origin` names the file in errors. */
KAEL_API kael_status kael_idx_images(const void* bytes, int64_t byte_count, const char* origin,
                                     int64_t origin_length, kael_tensor** images);
KAEL_API kael_status kael_idx_labels(const void* bytes, int64_t byte_count, const char* origin,
                                     int64_t origin_length, kael_tensor** labels);

/* ---- Gradients
 * ---------------------------------------------------------------------------------------------------
 */

/* Whether operators of this thread record what gradients need: 1 in a new thread. */
KAEL_API void kael_set_grad_enabled(uint8_t enabled);
KAEL_API uint8_t kael_grad_enabled(void);

/* `requires_grad`: whether operators on the tensor are recorded; `is_leaf`: whether no recorded
 * operator made it. Both 0 or 1. */
KAEL_API kael_status kael_tensor_gradient_state(const kael_tensor* tensor, uint8_t* requires_grad,
                                                uint8_t* is_leaf);
/* Floats only; a tensor that a recorded operator made keeps needing its gradient. */
KAEL_API kael_status kael_tensor_set_requires_grad(kael_tensor* tensor, uint8_t wanted);

/* The name of the recorded operator that made the tensor, as in "MulBackward"; empty for a leaf.
 * Valid until the next call on this thread that answers with a text. */
KAEL_API kael_status kael_tensor_grad_fn(const kael_tensor* tensor, const char** name,
                                         int64_t* length);

/* What backward passes have added up, in a new handle; NULL before the first. */
KAEL_API kael_status kael_tensor_grad(const kael_tensor* tensor, kael_tensor** gradient);
/* Of the tensor's shape and dtype; NULL clears it. */
KAEL_API kael_status kael_tensor_set_grad(kael_tensor* tensor, const kael_tensor* gradient);

/* The same memory without a record, in a new handle. */
KAEL_API kael_status kael_tensor_detach(const kael_tensor* tensor, kael_tensor** detached);

/* Another handle of the same tensor. */
KAEL_API kael_status kael_tensor_share(const kael_tensor* tensor, kael_tensor** shared);

/*
 * Gets a gradient, a handle that becomes its own, on the thread that walks; may write a handle that
 * the library frees to *replacement, and the walk goes on with that gradient. 0; anything else ends
 * the walk with KAEL_CALLBACK_FAILED.
 */
typedef int32_t (*kael_gradient_callback)(kael_tensor* gradient, kael_tensor** replacement,
                                          void* user_data);
/* Calls `hook` with the gradient of the tensor in every backward pass, before anything else sees
 * it. `release`, which may be NULL, is called when the hook can be called no more, and when this
 * fails. */
KAEL_API kael_status kael_tensor_add_hook(const kael_tensor* tensor, kael_gradient_callback hook,
                                          kael_release_callback release, void* user_data,
                                          int64_t* number);
/* Removing twice does nothing. */
KAEL_API kael_status kael_tensor_remove_hook(const kael_tensor* tensor, int64_t number);

typedef int32_t kael_backward_flags;
enum {
    KAEL_RETAIN_GRAPH = 1, /* keep what was saved, so that the graph can be walked again */
    KAEL_CREATE_GRAPH = 2, /* record the walk itself; implies the former */
    KAEL_ALLOW_UNUSED = 4  /* kael_grad: NULL for an input that no root depends on */
};

/*
 * Adds to the gradient of every leaf that the roots were computed from. gradients[i] is that of
 * roots[i]; NULL, as `gradients` itself may be, means 1 for a root of one element.
 */
KAEL_API kael_status kael_backward(kael_tensor** roots, kael_tensor** gradients, int64_t root_count,
                                   kael_backward_flags flags);

/*
 * Writes the gradients of the sum of the roots with respect to the inputs, new handles, to
 * results[0] to results[input_count - 1]. They accumulate nowhere.
 */
KAEL_API kael_status kael_grad(kael_tensor** roots, kael_tensor** gradients, int64_t root_count,
                               kael_tensor** inputs, int64_t input_count, kael_backward_flags flags,
                               kael_tensor** results);

/* A node of the graph: one recorded operator, or what adds to the gradient of a leaf. The handle
 * keeps the node alive, and what the node needs. */
typedef struct kael_node kael_node;

/* What made the tensor; NULL for a leaf. */
KAEL_API kael_status kael_tensor_node(const kael_tensor* tensor, kael_node** node);
KAEL_API void kael_node_free(kael_node* node);

/* "MulBackward". Valid until the next call on this thread that answers with a text. */
KAEL_API kael_status kael_node_name(const kael_node* node, const char** name, int64_t* length);
/* A number that two handles share if they stand for one node, and no other node that is alive has.
 */
KAEL_API kael_status kael_node_identity(const kael_node* node, int64_t* identity);
/* Where the gradients go, one for each operand, NULL where none is wanted. `count` is how many
 * there are; nothing is written where `capacity` is less. */
KAEL_API kael_status kael_node_next(const kael_node* node, kael_node** next, int64_t capacity,
                                    int64_t* count);

/* Gets what a node returned, a gradient for each operand (NULL where there is none), and the
 * gradient that it took, all of which it frees. May replace the former: sets `replaces` to 1 and
 * writes as many handles, or NULL, to `replacements`. Answers 0, or another number to end the walk
 * with KAEL_CALLBACK_FAILED. */
typedef int32_t (*kael_node_callback)(kael_tensor** gradients, int64_t count, kael_tensor* taken,
                                      kael_tensor** replacements, uint8_t* replaces,
                                      void* user_data);

/* Calls `hook` in every backward pass after the node ran, or with the gradient that it is about to
 * take before it runs. `release` as in kael_tensor_add_hook. Not while another thread walks the
 * graph. */
KAEL_API kael_status kael_node_add_hook(const kael_node* node, kael_node_callback hook,
                                        kael_release_callback release, void* user_data,
                                        int64_t* number);
KAEL_API kael_status kael_node_add_prehook(const kael_node* node, kael_gradient_callback hook,
                                           kael_release_callback release, void* user_data,
                                           int64_t* number);
/* Either kind. A number that is gone does nothing. */
KAEL_API kael_status kael_node_remove_hook(const kael_node* node, int64_t number);

/* ---- Debugging
 * ---------------------------------------------------------------------------------------------------
 */

/* Memory and gradient state of the tensor, one field a line; and the graph of what it was computed
 * from in the DOT language. Valid until the next call on this thread that answers with a text. */
KAEL_API kael_status kael_explain(const kael_tensor* tensor, const char** text, int64_t* length);
KAEL_API kael_status kael_autograd_graph(const kael_tensor* tensor, const char** text,
                                         int64_t* length);

/* The same graph with what its nodes keep for their backward passes; and both as JSON objects,
 * whose fields docs/debugging.md lists. The same lifetime. */
KAEL_API kael_status kael_autograd_graph_saved(const kael_tensor* tensor, const char** text,
                                               int64_t* length);
KAEL_API kael_status kael_explain_json(const kael_tensor* tensor, const char** text,
                                       int64_t* length);
KAEL_API kael_status kael_autograd_graph_json(const kael_tensor* tensor, const char** text,
                                              int64_t* length);

/* Gets one line, with its end, for each node that a backward pass runs, on the thread that walks.
 */
typedef void (*kael_trace_callback)(const char* line, int64_t length, void* user_data);

/* The same for programs: `line` is a JSON object, without a line end, whose fields
 * docs/debugging.md lists. Called after each node. Process-wide; NULL switches the records off. */
KAEL_API kael_status kael_set_backward_records(kael_trace_callback callback, void* user_data);

/* Process-wide; NULL switches the trace off. A walk that has begun may still call the callback that
 * was set before. */
KAEL_API kael_status kael_set_backward_trace(kael_trace_callback callback, void* user_data);

/* A recording of what tensors allocate, on every thread of the process, with at most `most_events`
 * events. Several may run at once. */
typedef struct kael_memory_recording kael_memory_recording;

KAEL_API kael_status kael_memory_recording_start(int64_t most_events,
                                                 kael_memory_recording** recording);
KAEL_API kael_status kael_memory_recording_stop(kael_memory_recording* recording);
/* As a JSON object, whose fields docs/debugging.md lists, also while it records. Valid until the
 * next call on this thread that answers with a text. */
KAEL_API kael_status kael_memory_recording_json(const kael_memory_recording* recording,
                                                const char** text, int64_t* length);
KAEL_API void kael_memory_recording_free(kael_memory_recording* recording);

typedef int32_t kael_anomaly_flags;
enum {
    KAEL_FIND_NAN = 1,
    KAEL_FIND_INFINITY = 2,
    KAEL_CHECK_FORWARD = 4 /* also the results of operators, beside one of the two above */
};

/* Process-wide: what backward passes search every gradient for, failing with KAEL_ANOMALY at the
 * first node that made one. 0 switches it off. */
KAEL_API kael_status kael_set_anomaly_detection(kael_anomaly_flags flags);

/* Writes the place in the program that called the operator, at most `capacity` bytes, and how many
 * they are. Answers 0, or another number to fail the operator with KAEL_CALLBACK_FAILED. */
typedef int32_t (*kael_call_site_callback)(char* text, int64_t capacity, int64_t* length,
                                           void* user_data);

/* Process-wide; NULL for none. Called on the thread that records or computes, while anomaly
 * detection is on. */
KAEL_API kael_status kael_set_call_site(kael_call_site_callback callback, void* user_data);

/* ---- Named tensors and safetensors files
 * ------------------------------------------------------------------------- */

/* An ordered collection of named tensors, with string metadata. */
typedef struct kael_tensor_map kael_tensor_map;

enum {
    KAEL_LOAD_COPY = 0,  /* reads the file: safe whatever happens to it later */
    KAEL_LOAD_MAPPED = 1 /* maps it read-only: no copy, but truncating the file while it is in use
                            ends the process */
};

/* Reads one .safetensors file. Refuses what the format forbids (docs/formats/safetensors.md) by
 * name. */
KAEL_API kael_status kael_safetensors_load(const char* path, int64_t path_length, int32_t mode,
                                           kael_tensor_map** map);

/* Writes to a sibling file, then renames it over `path`, so that a mapping of the old file stays
 * intact. */
KAEL_API kael_status kael_safetensors_save(const kael_tensor_map* map, const char* path,
                                           int64_t path_length);

KAEL_API kael_status kael_tensor_map_create(kael_tensor_map** map);
/* Adds a tensor (shared, not copied). A name that is there already is an error. */
KAEL_API kael_status kael_tensor_map_add(kael_tensor_map* map, const char* name,
                                         int64_t name_length, const kael_tensor* tensor);
/* A key that is there already is an error. */
KAEL_API kael_status kael_tensor_map_add_metadata(kael_tensor_map* map, const char* key,
                                                  int64_t key_length, const char* value,
                                                  int64_t value_length);
KAEL_API kael_status kael_tensor_map_size(const kael_tensor_map* map, int64_t* count);
/* Name and tensor at an index in [0, size). The name is valid until the map changes or is freed;
 * the tensor is a new handle. */
KAEL_API kael_status kael_tensor_map_get(const kael_tensor_map* map, int64_t index,
                                         const char** name, int64_t* name_length,
                                         kael_tensor** tensor);
KAEL_API kael_status kael_tensor_map_metadata_size(const kael_tensor_map* map, int64_t* count);
/* Key and value are valid until the map changes or is freed. */
KAEL_API kael_status kael_tensor_map_get_metadata(const kael_tensor_map* map, int64_t index,
                                                  const char** key, int64_t* key_length,
                                                  const char** value, int64_t* value_length);
KAEL_API void kael_tensor_map_free(kael_tensor_map* map);

/* ---- Byte-level BPE tokenizer
 * ------------------------------------------------------------------------------------ */

/* Immutable once loaded: any number of threads may use one handle at the same time. */
typedef struct kael_tokenizer kael_tokenizer;

/* From GPT-2's vocab.json and merges.txt. */
KAEL_API kael_status kael_tokenizer_load(const char* vocab_path, int64_t vocab_path_length,
                                         const char* merges_path, int64_t merges_path_length,
                                         kael_tokenizer** tokenizer);
/* One more than the highest id. */
KAEL_API kael_status kael_tokenizer_vocabulary_size(const kael_tokenizer* tokenizer, int64_t* size);
/* The id of "<|endoftext|>", or -1 when the vocabulary has none. */
KAEL_API kael_status kael_tokenizer_end_of_text(const kael_tokenizer* tokenizer, int64_t* id);
/*
 * Ids of `text` (any bytes) into `ids`; *count is how many there are, which is at most text_length.
 * A capacity too small is KAEL_INVALID_ARGUMENT. "<|endoftext|>" in the text is plain text unless
 * allow_special is not 0.
 */
KAEL_API kael_status kael_tokenizer_encode(const kael_tokenizer* tokenizer, const char* text,
                                           int64_t text_length, uint8_t allow_special, int64_t* ids,
                                           int64_t capacity, int64_t* count);
/*
 * The bytes that `ids` stand for; they need not be valid UTF-8. *length is how many there are; they
 * are written only when they fit in `capacity`, so a call with capacity 0 asks for the length. An
 * id outside the vocabulary is an error.
 */
KAEL_API kael_status kael_tokenizer_decode(const kael_tokenizer* tokenizer, const int64_t* ids,
                                           int64_t count, char* bytes, int64_t capacity,
                                           int64_t* length);
KAEL_API void kael_tokenizer_free(kael_tokenizer* tokenizer);

/* ---- GPT-2
 * -------------------------------------------------------------------------------------------------------
 */

/* One generation, or one call of another kind, at a time. */
typedef struct kael_gpt kael_gpt;

typedef int32_t kael_activation;
enum { KAEL_GELU_TANH = 0, KAEL_GELU_ERF = 1, KAEL_RELU = 2 };

typedef struct kael_gpt_config {
    int64_t struct_size;
    int64_t vocab_size;
    int64_t max_positions;
    int64_t layers;
    int64_t heads;
    int64_t dimension;       /* a multiple of heads */
    int64_t inner_dimension; /* of the MLP; 0 means 4 * dimension */
    double layer_norm_epsilon;
    kael_activation activation;
    uint8_t scale_attention;                  /* by 1 / sqrt(dimension / heads) */
    uint8_t scale_attention_by_inverse_layer; /* and by 1 / (layer + 1), layers counted from 0 */
    uint8_t tie_word_embeddings;              /* the head is the token embedding */
} kael_gpt_config;

/* GPT-2 small: 50,257 tokens, 1,024 positions, 12 layers, 12 heads, width 768. Sets struct_size. */
KAEL_API void kael_gpt_config_default(kael_gpt_config* config);

/* A model with random weights (normal, 0.02; GPT-2's scheme) from the stream of kael_manual_seed.
 */
KAEL_API kael_status kael_gpt_create(const kael_gpt_config* config, kael_gpt** gpt);

/* What the matrices of a model are kept and multiplied in. All but float32 are for inference alone:
 * kael_gpt_parameters and what training needs are then KAEL_UNSUPPORTED. */
typedef int32_t kael_weight_format;
enum {
    KAEL_WEIGHTS_FLOAT32 = 0,
    KAEL_WEIGHTS_BFLOAT16 = 1,
    KAEL_WEIGHTS_INT8 = 2, /* whole numbers of 8 bits with a scale for each 64 */
    KAEL_WEIGHTS_INT4 = 3  /* and of 4 bits with a scale for each 32 */
};

/*
 * Loads a folder with model.safetensors (or model.safetensors.index.json and its shards) and, where
 * there is one, config.json. As float32, float32 weights stay mapped, float16 and bfloat16 ones are
 * widened; for another format all are read and packed, and the file is no longer needed. A tensor
 * missing, surplus or of another shape than the configuration says is named.
 */
KAEL_API kael_status kael_gpt_load(const char* folder, int64_t folder_length,
                                   kael_weight_format format, kael_gpt** gpt);

/* Replaces the weights of `gpt` by those of one .safetensors file, under the configuration and
 * in the format that it has. */
KAEL_API kael_status kael_gpt_load_weights(kael_gpt* gpt, const char* path, int64_t path_length);

/* Fills `config`, whose struct_size the caller has set. */
KAEL_API kael_status kael_gpt_get_config(const kael_gpt* gpt, kael_gpt_config* config);
/* Parameters; a tied head counts once. */
KAEL_API kael_status kael_gpt_parameter_count(const kael_gpt* gpt, int64_t* count);

/* Every parameter under its name in GPT-2's files, a tied head once: handles of the model's own
 * tensors. What is written into them is what the model computes with; those of a mapped file are
 * read-only. Where they can be written, now or later, generations reuse no prefix from now on. */
KAEL_API kael_status kael_gpt_parameters(const kael_gpt* gpt, kael_tensor_map** parameters);
/* Copies the parameters of a mapped file, all or none, to memory that may be written. They stay the
 * same tensors; their `data` in kael_tensor_info changes. */
KAEL_API kael_status kael_gpt_make_parameters_writable(kael_gpt* gpt);

/* For training: from now on kael_gpt_logits sets each element of the embeddings, and of what
 * attention and MLP add to them, to 0 with a probability of `share`, from 0 to below 1, and scales
 * the others by 1 / (1 - share). Each call draws a seed from the stream of kael_manual_seed.
 * Nothing else drops out, and at first, with a share of 0, nothing does. */
KAEL_API kael_status kael_gpt_set_dropout(kael_gpt* gpt, double share);

/* Logits float32 [batch, length, vocab_size] of ids [batch, length], row-major; 1 <= length <=
 * max_positions. Recorded, and slower, where a parameter requires a gradient and this thread
 * records; as slow with dropout. */
KAEL_API kael_status kael_gpt_logits(kael_gpt* gpt, const int64_t* ids, int64_t batch,
                                     int64_t length, kael_tensor** logits);

/*
 * Every intermediate result of one forward pass over ids [length], by name and in order of
 * computation; names and shapes stand in docs/activations.md. The values are those that
 * kael_gpt_logits computes with, to the bit.
 */
KAEL_API kael_status kael_gpt_activations(kael_gpt* gpt, const int64_t* ids, int64_t length,
                                          kael_tensor_map** activations);

/* Answers of a token callback. 0 must mean stop, since a broken foreign callback returns 0. */
enum { KAEL_TOKEN_FAILED = -1, KAEL_TOKEN_STOP = 0, KAEL_TOKEN_CONTINUE = 1 };
/* Called with each new token, the last included. KAEL_TOKEN_FAILED ends the call with
 * KAEL_CALLBACK_FAILED. */
typedef int32_t (*kael_token_callback)(void* user_data, int64_t token);
/* Asked between the layers of a prompt and between tokens; anything but 0 ends the generation. Must
 * be quick. */
typedef uint8_t (*kael_stop_callback)(void* user_data);

typedef struct kael_logit_bias {
    int64_t token;
    double bias;
} kael_logit_bias;

/* The logarithm of the probability that the model itself gives to a token: before biases,
 * penalties, temperature and filters. token -1 and logprob -infinity where the vocabulary has fewer
 * tokens than were asked for. */
typedef struct kael_token_logprob {
    int64_t token;
    double logprob;
} kael_token_logprob;

typedef struct kael_generate_options {
    int64_t struct_size;
    int64_t max_tokens; /* new tokens, 0 or more */

    /* How a token is picked from logits; the steps in this order. */
    const kael_logit_bias* logit_biases; /* added to the logits of tokens of the vocabulary, in the
                                            range of float32; -1e9 forbids a token. May be NULL */
    int64_t logit_bias_count;
    double
        repetition_penalty;   /* logits of tokens in the prompt or among those generated: divided by
                                 it where they are 0 or more, else multiplied. Above 0; 1: off */
    double presence_penalty;  /* taken from the logits of tokens that were generated; 0: off */
    double frequency_penalty; /* as often as they were generated; 0: off */
    double temperature; /* 0: the most likely token, ties to the lowest id, and what follows does
                           not matter; else at least 0.001 */
    int64_t top_k;      /* only the so many most likely; 0, or at least vocab_size: all */
    double top_p;       /* of those, the fewest whose probabilities sum to at least so much: 0 (the
                           most likely) to 1 (all) */
    double min_p;       /* of those, the ones at least so many times as likely as the most likely: 0
                           (all) to 1 */

    uint64_t seed; /* used when has_seed is not 0; else drawn from the stream of kael_manual_seed */
    const int64_t* stop_tokens; /* ids of the vocabulary, each of which ends the generation and is
                                   the last one returned. May be NULL */
    int64_t stop_token_count;

    /* Where rows of 1 + top_logprobs entries go: the token itself, then the most likely ones in
     * order. May be NULL. `logprobs` has room for max_tokens rows, each of which is there before
     * its token is announced; `prompt_logprobs` for the prompt, which must fit the context, but its
     * first token, and is there before the first token. */
    kael_token_logprob* logprobs;
    kael_token_logprob* prompt_logprobs;
    int64_t top_logprobs; /* 0 to 1,000,000 */

    kael_token_callback on_token;   /* may be NULL */
    kael_stop_callback should_stop; /* may be NULL */
    void* user_data;
    uint8_t has_seed;
    uint8_t use_cache;    /* 0 recomputes every position for every token: the same tokens, slowly */
    uint8_t reuse_prefix; /* anything but 0: the ids with which the prompt begins as those of the
                             call before did (its prompt and its new tokens) keep what was computed
                             for them: the same bits, sooner. Never for prompt_logprobs, and never
                             once somebody has a parameter that can be written */
    int64_t speculate;    /* at most so many tokens, 0 (none) to 64, are guessed from what followed
                             earlier where the text was the same as at its end, and tried in one
                             pass: the same bits, sooner where the text repeats itself */
} kael_generate_options;

/* 64 tokens, temperature 1, no filter, bias or penalty, cache on, prefixes reused, no guesses. Sets
 * struct_size. */
KAEL_API void kael_generate_options_default(kael_generate_options* options);

typedef int32_t kael_finish_reason;
enum {
    KAEL_FINISH_LENGTH = 0,     /* max_tokens were generated */
    KAEL_FINISH_STOP_TOKEN = 1, /* the last token is one of stop_tokens */
    KAEL_FINISH_CALLBACK = 2,   /* on_token answered KAEL_TOKEN_STOP */
    KAEL_FINISH_STOPPED = 3     /* should_stop answered yes */
};

typedef struct kael_generate_result {
    int64_t struct_size;
    int64_t count;         /* new tokens written */
    double prompt_seconds; /* from the call to the first token */
    double decode_seconds; /* from the first token to the end */
    uint64_t seed;         /* the one used */
    kael_finish_reason finish_reason;
    int64_t cached_tokens;  /* of the prompt, for which reuse_prefix saved the work */
    int64_t guessed_tokens; /* new ones that were guessed right (speculate), and took no pass */
} kael_generate_result;

/*
 * Continues the prompt `ids` (at least one) by at most max_tokens tokens, which go to `tokens`
 * (room for max_tokens). Past max_positions the window slides: the model sees the last
 * max_positions tokens. On failure `result->count` tokens have been announced all the same. The
 * same prompt, options, seed and build give the same tokens for any number of threads.
 */
KAEL_API kael_status kael_gpt_generate(kael_gpt* gpt, const int64_t* ids, int64_t count,
                                       const kael_generate_options* options, int64_t* tokens,
                                       kael_generate_result* result);
KAEL_API void kael_gpt_free(kael_gpt* gpt);

/*
 * Picks a token from logits [count] by the options from logit_biases to min_p, with the text so far
 * (prompt [prompt_count], generated [generated_count], each of which may be empty and NULL) for the
 * penalties. What the filters leave is drawn from by `draw`, a number in [0, 1). A token of
 * probability 0 is never picked.
 */
KAEL_API kael_status kael_sample_next(const float* logits, int64_t count,
                                      const kael_generate_options* options, const int64_t* prompt,
                                      int64_t prompt_count, const int64_t* generated,
                                      int64_t generated_count, double draw, int64_t* token);

/* ---- Token ring: tokens from the generating thread to an event loop, without a callback into the
 * caller's language - */

/*
 * One producer (the generating thread) and one consumer (the loop's thread). Two owners:
 * kael_token_ring_finish is the producer's last touch, kael_token_ring_free the consumer's; memory
 * and descriptor go with the later of the two.
 */
typedef struct kael_token_ring kael_token_ring;

typedef struct kael_token_record {
    int64_t token;
    int64_t nanoseconds; /* monotonic clock, when the token was pushed */
} kael_token_record;

/* A ring for at most `max_tokens` tokens, the most that its generation can announce. */
KAEL_API kael_status kael_token_ring_create(int64_t max_tokens, kael_token_ring** ring);
/* Readable when there is something to drain. Owned by the ring: watch it, never close it. */
KAEL_API int32_t kael_token_ring_descriptor(const kael_token_ring* ring);
/* Producer. A kael_token_callback for user_data = the ring. A full ring (a caller's bug) answers
 * KAEL_TOKEN_FAILED. */
KAEL_API int32_t kael_token_ring_push(void* ring, int64_t token);
/* Producer. A kael_stop_callback for user_data = the ring: 1 once kael_token_ring_stop was called.
 * Announces the tokens that a slow pass of the model gave beyond its first. */
KAEL_API uint8_t kael_token_ring_stopping(void* ring);
/* Producer: marks the end, wakes the consumer, gives up the producer's share. */
KAEL_API void kael_token_ring_finish(kael_token_ring* ring);
/* Consumer: asks the producer to stop. Takes no lock. */
KAEL_API void kael_token_ring_stop(kael_token_ring* ring);
/* Consumer: takes up to `capacity` records; *done is 1 when the producer has finished and nothing
 * is left. No lock. */
KAEL_API kael_status kael_token_ring_drain(kael_token_ring* ring, kael_token_record* records,
                                           int64_t capacity, int64_t* count, uint8_t* done);
/* Consumer: gives up the consumer's share. */
KAEL_API void kael_token_ring_free(kael_token_ring* ring);

/* ---- The machine's limits, to hold speeds against
 * ---------------------------------------------------------------- */

/* Bytes per second read from memory by `threads` threads streaming over 256 MiB, the best of
 * `repeats` passes. */
KAEL_API kael_status kael_measure_read_bandwidth(int32_t threads, int32_t repeats,
                                                 double* bytes_per_second);
/* Operations per second of multiply-adds in registers (one multiply-add is two), likewise: those
 * that products with weights of `format` are made of. */
KAEL_API kael_status kael_measure_multiply_add(kael_weight_format format, int32_t threads,
                                               int32_t repeats, double* operations_per_second);

#ifdef __cplusplus
}
#endif

#endif /* KAEL_KAEL_H */

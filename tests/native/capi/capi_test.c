/*
 * kael.h from C99: the header stands alone, every function works through it, and the conventions at
 * its head hold. One program, no framework: each check that fails is printed, and the exit code
 * counts them.
 */
#include <kael/kael.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ++failures;                                                                            \
            fprintf(stderr, "%s:%d: %s is false; the last error: %s\n", __FILE__, __LINE__,        \
                    #condition, kael_last_error(NULL));                                            \
        }                                                                                          \
    } while (0)

#define CHECK_OK(call) CHECK((call) == KAEL_OK)
#define CHECK_REFUSED(call) CHECK((call) == KAEL_INVALID_ARGUMENT)
#define CHECK_REFUSED_SAYING(call, text)                                                           \
    do {                                                                                           \
        CHECK_REFUSED(call);                                                                       \
        CHECK(strstr(kael_last_error_message(NULL), text) != NULL);                                \
    } while (0)

enum { kVocabulary = 16, kPositions = 8 };

static void version_and_errors(void) {
    CHECK(kael_abi_version() == KAEL_ABI_VERSION);
    CHECK(strlen(kael_version()) >= strlen("0.0.0"));
    CHECK(strlen(kael_build_info()) > 0);

    CHECK_REFUSED(kael_tensor_describe(NULL, NULL));
    int64_t length = -1;
    const char* text = kael_last_error(&length);
    CHECK(length == (int64_t)strlen(text));
    CHECK(strncmp(text, "kael error at ", strlen("kael error at ")) == 0);
    const char* message = kael_last_error_message(&length);
    CHECK(length == (int64_t)strlen(message));
    CHECK(strstr(text, message) == text + strlen(text) - strlen(message));
    CHECK(strstr(message, "tensor") != NULL);
}

static void settings(void) {
    const int32_t before = kael_get_num_threads();
    CHECK(before >= 1 && before <= 256);
    CHECK_OK(kael_set_num_threads(2));
    CHECK(kael_get_num_threads() == 2);
    CHECK_REFUSED(kael_set_num_threads(0));
    CHECK_REFUSED(kael_set_num_threads(257));
    CHECK(kael_get_num_threads() == 2);
    CHECK_OK(kael_set_num_threads(before));
    CHECK(kael_caching_allocator_enabled() <= 1);
}

static void tensors(void) {
    const int64_t shape[2] = {2, 3};
    const float values[6] = {0, 1, 2, 3, 4, 5};
    kael_tensor* tensor = NULL;
    CHECK_OK(
        kael_tensor_from_bytes(KAEL_FLOAT32, shape, 2, values, (int64_t)sizeof values, &tensor));

    kael_tensor_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = (int64_t)sizeof info;
    CHECK_OK(kael_tensor_describe(tensor, &info));
    CHECK(info.dtype == KAEL_FLOAT32 && info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3);
    CHECK(info.strides[0] == 3 && info.strides[1] == 1 && info.offset == 0);
    CHECK(info.element_count == 6 && info.byte_count == 24 && info.is_contiguous &&
          !info.is_read_only);
    CHECK(memcmp(info.data, values, sizeof values) == 0);

    const int64_t flat[1] = {-1};
    kael_tensor* view = NULL;
    CHECK_OK(kael_tensor_view(tensor, flat, 1, &view));
    kael_tensor_free(tensor); /* the view keeps the memory */
    kael_tensor_info of_view = info;
    CHECK_OK(kael_tensor_describe(view, &of_view));
    CHECK(of_view.rank == 1 && of_view.shape[0] == 6 && of_view.data == info.data);
    CHECK(((const float*)of_view.data)[5] == 5.0F);
    const int64_t seven[1] = {7};
    kael_tensor* untouched = view;
    CHECK_REFUSED(kael_tensor_view(view, seven, 1, &untouched));
    CHECK(untouched == view); /* results are written only on success */
    kael_tensor_free(view);

    CHECK_REFUSED(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 2, values, 23, &tensor));
    CHECK_REFUSED(
        kael_tensor_from_bytes(KAEL_FLOAT32, shape, KAEL_MAX_RANK + 1, values, 24, &tensor));
    CHECK_REFUSED(kael_tensor_from_bytes(99, shape, 2, values, 24, &tensor));
    CHECK_REFUSED(kael_tensor_from_bytes(KAEL_FLOAT32, NULL, 2, values, 24, &tensor));
    CHECK_REFUSED(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 2, NULL, 24, &tensor));
    CHECK_REFUSED(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 2, values, 24, NULL));

    /* A scalar and an empty tensor; KB082's cousin: NULL with nothing to read is allowed. */
    CHECK_OK(kael_tensor_from_bytes(KAEL_FLOAT32, NULL, 0, values, 4, &tensor));
    kael_tensor_free(tensor);
    const int64_t empty[2] = {0, 3};
    CHECK_OK(kael_tensor_from_bytes(KAEL_INT64, empty, 2, NULL, 0, &tensor));
    CHECK_OK(kael_tensor_describe(tensor, &info));
    CHECK(info.element_count == 0 && info.data == NULL);
    kael_tensor_free(tensor);
}

/* The file's path, in the folder that the test was given. */
static const char* in_folder(const char* folder, const char* name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void count_release(void* user_data) {
    ++*(int*)user_data;
}

static void borrowed_memory(void) {
    float numbers[4] = {1, 2, 3, 4};
    const int64_t shape[2] = {2, 1};
    const int64_t strides[2] = {2, 1};
    int released = 0;
    kael_tensor* tensor = NULL;
    CHECK_OK(kael_tensor_from_memory(KAEL_FLOAT32, shape, strides, 2, numbers, 12, 0, count_release,
                                     &released, &tensor));
    kael_tensor_info info = {0};
    info.struct_size = (int64_t)sizeof info;
    CHECK_OK(kael_tensor_describe(tensor, &info));
    CHECK(info.data == (void*)numbers && info.is_read_only == 0 && info.strides[0] == 2);
    const int64_t flat[1] = {2};
    kael_tensor* view = NULL;
    CHECK_OK(kael_tensor_view(tensor, flat, 1, &view));
    kael_tensor_free(tensor);
    CHECK(released == 0);
    kael_tensor_free(view);
    CHECK(released == 1);

    /* After a failure the memory is the caller's again. */
    CHECK_REFUSED(kael_tensor_from_memory(KAEL_FLOAT32, shape, strides, 2, numbers, 11, 0,
                                          count_release, &released, &tensor));
    CHECK_REFUSED(kael_tensor_from_memory(KAEL_FLOAT32, shape, NULL, 2, numbers, 12, 0,
                                          count_release, &released, &tensor));
    CHECK_REFUSED(kael_tensor_from_memory(KAEL_FLOAT32, shape, strides, 2, NULL, 12, 0,
                                          count_release, &released, &tensor));
    CHECK_REFUSED(kael_tensor_from_memory(KAEL_FLOAT32, shape, strides, 2, numbers, 12, 0, NULL,
                                          &released, &tensor));
    CHECK_REFUSED(kael_tensor_from_memory(KAEL_FLOAT32, shape, strides, 2, numbers, 12, 0,
                                          count_release, &released, NULL));
    CHECK(released == 1);
}

static kael_argument tensor_argument(kael_tensor* tensor) {
    kael_argument argument = {KAEL_ARGUMENT_TENSOR, 0, NULL, NULL, NULL, 0, 0};
    argument.tensor = tensor;
    return argument;
}

static void operators(void) {
    const float numbers[2] = {1, 2};
    const int64_t shape[1] = {2};
    kael_tensor* x = NULL;
    CHECK_OK(kael_tensor_from_bytes(KAEL_FLOAT32, shape, 1, numbers, 8, &x));
    kael_argument arguments[2] = {tensor_argument(x),
                                  {KAEL_ARGUMENT_REAL, 0, NULL, NULL, NULL, 0, 0.5}};
    kael_tensor* sum = NULL;
    int64_t count = -1;
    CHECK_OK(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    CHECK(count == 1);
    kael_tensor_info info = {0};
    info.struct_size = (int64_t)sizeof info;
    CHECK_OK(kael_tensor_describe(sum, &info));
    CHECK(info.dtype == KAEL_FLOAT32 && ((const float*)info.data)[1] == 2.5F);
    kael_tensor_free(sum);
    CHECK_OK(kael_apply("mul_", 4, arguments, 2, NULL, 0, &count));
    CHECK(count == 0);
    CHECK_OK(kael_tensor_describe(x, &info));
    CHECK(((const float*)info.data)[1] == 1.0F);

    kael_tensor* const untouched = x;
    sum = untouched;
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 0, &count));
    CHECK(strstr(kael_last_error_message(NULL), "add: 1 results, and room for 0") != NULL);
    CHECK(kael_apply("ad", 2, arguments, 2, &sum, 1, &count) == KAEL_NOT_FOUND);
    CHECK_REFUSED(kael_apply("add", 3, arguments, 1, &sum, 1, &count));
    CHECK_REFUSED(kael_apply("add", 3, arguments, -1, &sum, 1, &count));
    CHECK_REFUSED(kael_apply("add", 3, NULL, 2, &sum, 1, &count));
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, NULL, 1, &count));
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, NULL));
    CHECK_REFUSED(kael_apply(NULL, 3, arguments, 2, &sum, 1, &count));
    arguments[1].kind = KAEL_ARGUMENT_INTEGERS + 1;
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    CHECK(strstr(kael_last_error_message(NULL), "add: argument 2 is of the unknown kind 7") !=
          NULL);
    arguments[1].kind = KAEL_ARGUMENT_INTEGERS;
    arguments[1].count = -1;
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    arguments[1].count = 1;
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    arguments[1].kind = KAEL_ARGUMENT_TENSORS;
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    arguments[1] = tensor_argument(NULL);
    CHECK_REFUSED(kael_apply("add", 3, arguments, 2, &sum, 1, &count));
    CHECK(sum == untouched);
    kael_tensor_free(x);

    const char* name = NULL;
    int64_t length = 0;
    kael_operator_count(&count);
    kael_operator_count(NULL);
    CHECK(count > 0);
    CHECK_OK(kael_operator_name(count - 1, &name, &length));
    CHECK(length == (int64_t)strlen(name));
    CHECK_REFUSED(kael_operator_name(count, &name, &length));
    CHECK_REFUSED(kael_operator_name(-1, &name, &length));
    CHECK_REFUSED(kael_operator_name(0, NULL, &length));
    CHECK_REFUSED(kael_operator_name(0, &name, NULL));
}

static void gradients(void) {
    const float number = 3;
    kael_tensor* x = NULL;
    CHECK_OK(kael_tensor_from_bytes(KAEL_FLOAT32, NULL, 0, &number, 4, &x));
    CHECK_OK(kael_tensor_set_requires_grad(x, 1));
    kael_argument arguments[1] = {tensor_argument(x)};
    kael_tensor* y = NULL;
    int64_t count = 0;
    CHECK_OK(kael_apply("square", 6, arguments, 1, &y, 1, &count));

    kael_tensor* nothing[1] = {NULL};
    kael_tensor* found = NULL;
    CHECK_REFUSED_SAYING(kael_backward(&y, NULL, -1, 0),
                         "the count of the argument roots is -1, expected 0 or more");
    CHECK_REFUSED_SAYING(kael_backward(NULL, NULL, 1, 0), "the argument roots is null");
    CHECK_REFUSED_SAYING(kael_backward(nothing, NULL, 1, 0),
                         "entry 0 of the argument roots is null");
    CHECK_REFUSED_SAYING(kael_backward(&y, NULL, 1, KAEL_ALLOW_UNUSED),
                         "the flags are 4, expected some of 3");
    CHECK_REFUSED_SAYING(kael_grad(&y, NULL, 1, &x, 1, 0, NULL), "the argument results is null");
    CHECK_REFUSED_SAYING(kael_grad(&y, NULL, 1, nothing, 1, 0, &found),
                         "entry 0 of the argument inputs is null");
    CHECK_OK(kael_grad(&y, nothing, 1, &x, 1, 0, &found));
    kael_tensor_info info = {0};
    info.struct_size = (int64_t)sizeof info;
    CHECK_OK(kael_tensor_describe(found, &info));
    CHECK(*(const float*)info.data == 6.0F);
    kael_tensor_free(found);

    const char* text = NULL;
    int64_t length = 0;
    CHECK_REFUSED_SAYING(kael_tensor_grad_fn(y, NULL, &length), "the pointer to the text is null");
    CHECK_REFUSED_SAYING(kael_tensor_grad_fn(y, &text, NULL),
                         "the pointer to the length of the text is null");
    CHECK_OK(kael_tensor_grad_fn(y, &text, &length));
    CHECK(length == (int64_t)strlen("SquareBackward") && strcmp(text, "SquareBackward") == 0);

    kael_node* node = NULL;
    CHECK_OK(kael_tensor_node(y, &node));
    CHECK_REFUSED_SAYING(kael_node_next(node, NULL, 1, &count), "the argument next is null");
    kael_node_free(node);
    kael_tensor_free(x);
    kael_tensor_free(y);
}

static int32_t fail_to_name(char* text, int64_t capacity, int64_t* length, void* user_data) {
    (void)text;
    (void)capacity;
    (void)length;
    (void)user_data;
    return 7;
}

static int32_t name_too_much(char* text, int64_t capacity, int64_t* length, void* user_data) {
    (void)text;
    (void)user_data;
    *length = capacity + 1;
    return 0;
}

static void call_sites(void) {
    const float number = 3;
    kael_tensor* x = NULL;
    CHECK_OK(kael_tensor_from_bytes(KAEL_FLOAT32, NULL, 0, &number, 4, &x));
    CHECK_OK(kael_tensor_set_requires_grad(x, 1));
    kael_argument arguments[1] = {tensor_argument(x)};
    kael_tensor* y = NULL;
    int64_t count = 0;

    CHECK_REFUSED_SAYING(kael_set_anomaly_detection(KAEL_CHECK_FORWARD),
                         "expected 0, or 1, 2 or both");
    CHECK_OK(kael_set_anomaly_detection(KAEL_FIND_NAN));
    CHECK_OK(kael_set_call_site(fail_to_name, NULL));
    CHECK(kael_apply("square", 6, arguments, 1, &y, 1, &count) == KAEL_CALLBACK_FAILED);
    CHECK(strstr(kael_last_error_message(NULL), "answered 7, expected 0") != NULL);
    CHECK_OK(kael_set_call_site(name_too_much, NULL));
    CHECK_REFUSED_SAYING(kael_apply("square", 6, arguments, 1, &y, 1, &count),
                         "wrote 4097 bytes, expected at most 4096");
    CHECK_OK(kael_set_call_site(NULL, NULL));
    CHECK_OK(kael_set_anomaly_detection(0));
    kael_tensor_free(x);
}

static void idx_files(void) {
    kael_tensor* found = NULL;
    CHECK_REFUSED_SAYING(kael_idx_labels("", -1, "x", 1, &found),
                         "the argument byte_count is -1, expected 0 or more");
    CHECK_REFUSED_SAYING(kael_idx_labels(NULL, 8, "x", 1, &found), "the argument bytes is null");
    CHECK(kael_idx_images("", 0, "x", 1, &found) == KAEL_INVALID_FILE);
    CHECK(found == NULL);
}

static void named_tensors(const char* folder) {
    const int64_t shape[1] = {2};
    const int64_t values[2] = {7, -8};
    kael_tensor* tensor = NULL;
    kael_tensor_map* map = NULL;
    CHECK_OK(kael_tensor_from_bytes(KAEL_INT64, shape, 1, values, (int64_t)sizeof values, &tensor));
    CHECK_OK(kael_tensor_map_create(&map));
    CHECK_OK(kael_tensor_map_add(map, "weights", 7, tensor));
    CHECK_REFUSED(kael_tensor_map_add(map, "weights", 7, tensor));
    CHECK_OK(kael_tensor_map_add_metadata(map, "by", 2, "a\0c", 3));
    kael_tensor_free(tensor);

    const char* path = in_folder(folder, "named.safetensors");
    const int64_t length = (int64_t)strlen(path);
    CHECK_OK(kael_safetensors_save(map, path, length));
    kael_tensor_map_free(map);

    for (int32_t mode = KAEL_LOAD_COPY; mode <= KAEL_LOAD_MAPPED; ++mode) {
        CHECK_OK(kael_safetensors_load(path, length, mode, &map));
        int64_t count = 0;
        CHECK_OK(kael_tensor_map_size(map, &count));
        CHECK(count == 1);
        const char* name = NULL;
        int64_t name_length = 0;
        CHECK_OK(kael_tensor_map_get(map, 0, &name, &name_length, &tensor));
        CHECK(name_length == 7 && memcmp(name, "weights", 7) == 0);
        CHECK_REFUSED(kael_tensor_map_get(map, 1, &name, &name_length, &tensor));
        CHECK_REFUSED(kael_tensor_map_get(map, -1, &name, &name_length, &tensor));

        const char* key = NULL;
        const char* value = NULL;
        int64_t key_length = 0;
        int64_t value_length = 0;
        CHECK_OK(kael_tensor_map_metadata_size(map, &count));
        CHECK(count == 1);
        CHECK_OK(kael_tensor_map_get_metadata(map, 0, &key, &key_length, &value, &value_length));
        CHECK(key_length == 2 && memcmp(key, "by", 2) == 0);
        CHECK(value_length == 3 && memcmp(value, "a\0c", 3) == 0);
        CHECK_REFUSED(
            kael_tensor_map_get_metadata(map, 1, &key, &key_length, &value, &value_length));

        kael_tensor_map_free(map); /* the tensor outlives it */
        kael_tensor_info info;
        memset(&info, 0, sizeof info);
        info.struct_size = (int64_t)sizeof info;
        CHECK_OK(kael_tensor_describe(tensor, &info));
        CHECK(info.is_read_only == (mode == KAEL_LOAD_MAPPED));
        CHECK(((const int64_t*)info.data)[1] == -8);
        kael_tensor_free(tensor);
    }
    CHECK(kael_safetensors_load("/nowhere/at all", 15, KAEL_LOAD_COPY, &map) == KAEL_NOT_FOUND);
    CHECK(strstr(kael_last_error_message(NULL), "/nowhere/at all") != NULL);
    CHECK_REFUSED(kael_safetensors_load(path, length, 2, &map));
    CHECK_REFUSED(kael_safetensors_load("a\0b", 3, KAEL_LOAD_COPY, &map));
    CHECK_REFUSED(kael_safetensors_load(path, -1, KAEL_LOAD_COPY, &map));
}

static void write_file(const char* path, const char* text) {
    FILE* file = fopen(path, "wb");
    CHECK(file != NULL);
    if (file != NULL) {
        CHECK(fputs(text, file) >= 0);
        CHECK(fclose(file) == 0);
    }
}

static void tokenizer(const char* folder) {
    char vocab[4096];
    char merges[4096];
    snprintf(vocab, sizeof vocab, "%s", in_folder(folder, "vocab.json"));
    snprintf(merges, sizeof merges, "%s", in_folder(folder, "merges.txt"));
    /* U+0000 is U+0100 in GPT-2's byte alphabet. */
    write_file(vocab, "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0100\": 3, \"<|endoftext|>\": 4}");
    write_file(merges, "#version: 0.2\na b\n");

    kael_tokenizer* bpe = NULL;
    CHECK_OK(
        kael_tokenizer_load(vocab, (int64_t)strlen(vocab), merges, (int64_t)strlen(merges), &bpe));
    int64_t number = 0;
    CHECK_OK(kael_tokenizer_vocabulary_size(bpe, &number));
    CHECK(number == 5);
    CHECK_OK(kael_tokenizer_end_of_text(bpe, &number));
    CHECK(number == 4);

    /* KB082: U+0000 is a character like others. */
    int64_t ids[16];
    int64_t count = 0;
    CHECK_OK(kael_tokenizer_encode(bpe, "ab\0ba", 5, 0, ids, 16, &count));
    CHECK(count == 4 && ids[0] == 2 && ids[1] == 3 && ids[2] == 1 && ids[3] == 0);
    CHECK_REFUSED(kael_tokenizer_encode(bpe, "ab\0ba", 5, 0, ids, 3, &count));
    CHECK_OK(kael_tokenizer_encode(bpe, NULL, 0, 0, NULL, 0, &count));
    CHECK(count == 0);

    char bytes[16];
    int64_t length = 0;
    const int64_t some[3] = {2, 3, 1};
    CHECK_OK(kael_tokenizer_decode(bpe, some, 3, NULL, 0, &length));
    CHECK(length == 4);
    CHECK_OK(kael_tokenizer_decode(bpe, some, 3, bytes, 16, &length));
    CHECK(length == 4 && memcmp(bytes, "ab\0b", 4) == 0);
    const int64_t outside[1] = {5};
    CHECK_REFUSED(kael_tokenizer_decode(bpe, outside, 1, bytes, 16, &length));
    CHECK_REFUSED(kael_tokenizer_decode(bpe, NULL, 1, bytes, 16, &length));
    CHECK_REFUSED(kael_tokenizer_encode(NULL, "a", 1, 0, ids, 16, &count));
    kael_tokenizer_free(bpe);
}

static kael_gpt* tiny_model(void) {
    kael_gpt_config config;
    kael_gpt_config_default(&config);
    CHECK(config.struct_size == (int64_t)sizeof config);
    CHECK(config.vocab_size == 50257 && config.max_positions == 1024 && config.layers == 12);
    CHECK(config.heads == 12 && config.dimension == 768 && config.activation == KAEL_GELU_TANH);
    CHECK(config.scale_attention == 1 && config.tie_word_embeddings == 1);
    config.vocab_size = kVocabulary;
    config.max_positions = kPositions;
    config.layers = 1;
    config.heads = 2;
    config.dimension = 8;
    kael_gpt* gpt = NULL;
    kael_manual_seed(7);
    uint64_t seed = 0;
    uint64_t position = 1;
    CHECK_OK(kael_random_state(&seed, &position));
    CHECK(seed == 7 && position == 0);
    CHECK_REFUSED(kael_random_state(NULL, &position));
    CHECK_REFUSED(kael_random_state(&seed, NULL));
    kael_set_random_state(seed, position);
    CHECK_OK(kael_gpt_create(&config, &gpt));
    config.heads = 3; /* does not divide 8 */
    CHECK_REFUSED(kael_gpt_create(&config, &gpt));
    return gpt;
}

static void model(void) {
    kael_gpt* gpt = tiny_model();
    kael_gpt_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = (int64_t)sizeof config;
    CHECK_OK(kael_gpt_get_config(gpt, &config));
    CHECK(config.vocab_size == kVocabulary && config.max_positions == kPositions &&
          config.dimension == 8);
    int64_t count = 0;
    CHECK_OK(kael_gpt_parameter_count(gpt, &count));
    CHECK(count == (kVocabulary + kPositions) * 8 + 12 * 8 * 8 + 13 * 8 + 2 * 8);

    const int64_t ids[6] = {1, 2, 3, 4, 5, 6};
    kael_tensor* logits = NULL;
    CHECK_OK(kael_gpt_logits(gpt, ids, 2, 3, &logits));
    kael_tensor_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = (int64_t)sizeof info;
    CHECK_OK(kael_tensor_describe(logits, &info));
    CHECK(info.rank == 3 && info.shape[0] == 2 && info.shape[1] == 3 &&
          info.shape[2] == kVocabulary);
    kael_tensor_free(logits);

    CHECK_OK(kael_gpt_set_dropout(gpt, 0.5));
    CHECK_OK(kael_gpt_logits(gpt, ids, 2, 3, &logits));
    kael_tensor_free(logits);
    CHECK_REFUSED(kael_gpt_set_dropout(gpt, 1.0));
    CHECK_REFUSED(kael_gpt_set_dropout(NULL, 0.5));
    CHECK_OK(kael_gpt_set_dropout(gpt, 0.0));

    const int64_t outside[1] = {kVocabulary};
    CHECK_REFUSED(kael_gpt_logits(gpt, outside, 1, 1, &logits));
    CHECK_REFUSED(kael_gpt_logits(gpt, ids, 1, 0, &logits));
    CHECK_REFUSED(kael_gpt_logits(gpt, ids, 1, kPositions + 1, &logits));
    CHECK_REFUSED(kael_gpt_logits(gpt, ids, INT64_MAX, 6, &logits));
    CHECK_REFUSED(kael_gpt_logits(gpt, NULL, 1, 1, &logits));
    CHECK_REFUSED(kael_gpt_logits(NULL, ids, 1, 1, &logits));

    kael_tensor_map* activations = NULL;
    CHECK_OK(kael_gpt_activations(gpt, ids, 3, &activations));
    CHECK_OK(kael_tensor_map_size(activations, &count));
    CHECK(count > 5);
    kael_tensor_map_free(activations);

    CHECK(kael_gpt_load("/nowhere", 8, KAEL_WEIGHTS_FLOAT32, &gpt) == KAEL_NOT_FOUND);
    CHECK(kael_gpt_load_weights(gpt, "/nowhere", 8) == KAEL_NOT_FOUND);
    kael_gpt_free(gpt);
}

struct Listener {
    int64_t seen[32];
    int64_t count;
    int64_t stop_after;
    int32_t last_answer;
    int64_t questions;
};

static int32_t listen(void* user_data, int64_t token) {
    struct Listener* listener = (struct Listener*)user_data;
    listener->seen[listener->count++] = token;
    return listener->count == listener->stop_after ? listener->last_answer : KAEL_TOKEN_CONTINUE;
}

static uint8_t question(void* user_data) {
    struct Listener* listener = (struct Listener*)user_data;
    return ++listener->questions > 3;
}

static void generation(void) {
    kael_gpt* gpt = tiny_model();
    const int64_t prompt[2] = {1, 2};
    int64_t tokens[32] = {0};
    kael_generate_options options;
    kael_generate_options_default(&options);
    CHECK(options.struct_size == (int64_t)sizeof options);
    CHECK(options.max_tokens == 64 && options.temperature == 1.0 && options.top_k == 0);
    CHECK(options.use_cache == 1 && options.on_token == NULL && options.should_stop == NULL);
    options.max_tokens = 12; /* past the 8 positions: the window slides */
    options.has_seed = 1;
    options.seed = 42;
    kael_generate_result result;
    memset(&result, 0, sizeof result);
    result.struct_size = (int64_t)sizeof result;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, tokens, &result));
    CHECK(result.count == 12 && result.finish_reason == KAEL_FINISH_LENGTH && result.seed == 42);
    CHECK(result.prompt_seconds > 0 && result.decode_seconds >= 0);

    int64_t again[32] = {0};
    options.use_cache = 0;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    CHECK(memcmp(tokens, again, sizeof tokens) == 0);
    options.use_cache = 1;

    options.stop_token_count = -1;
    CHECK_REFUSED_SAYING(kael_gpt_generate(gpt, prompt, 2, &options, again, &result),
                         "stop_token_count is -1, expected 0 or more");
    options.stop_token_count = 0;

    struct Listener listener;
    memset(&listener, 0, sizeof listener);
    options.on_token = listen;
    options.user_data = &listener;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    CHECK(listener.count == 12 && memcmp(listener.seen, tokens, 12 * sizeof(int64_t)) == 0);

    memset(&listener, 0, sizeof listener);
    listener.stop_after = 3;
    listener.last_answer = KAEL_TOKEN_STOP;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    CHECK(listener.count == 3 && result.count == 3 && result.finish_reason == KAEL_FINISH_CALLBACK);

    memset(&listener, 0, sizeof listener);
    listener.stop_after = 2;
    listener.last_answer = KAEL_TOKEN_FAILED;
    CHECK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result) == KAEL_CALLBACK_FAILED);
    CHECK(listener.count == 2 && result.count == 2);
    options.on_token = NULL;

    memset(&listener, 0, sizeof listener);
    options.should_stop = question;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    CHECK(result.finish_reason == KAEL_FINISH_STOPPED && result.count < 12);
    options.should_stop = NULL;

    options.stop_tokens = &tokens[4];
    options.stop_token_count = 1;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    CHECK(result.finish_reason == KAEL_FINISH_STOP_TOKEN && result.count <= 5);
    CHECK(again[result.count - 1] == tokens[4]);
    options.stop_tokens = NULL;
    CHECK_REFUSED(
        kael_gpt_generate(gpt, prompt, 2, &options, again, &result)); /* one token at NULL */
    options.stop_token_count = 0;

    options.max_tokens = 0;
    CHECK_OK(kael_gpt_generate(gpt, prompt, 2, &options, NULL, &result));
    CHECK(result.count == 0);
    options.max_tokens = 1;
    CHECK_REFUSED(kael_gpt_generate(gpt, prompt, 2, &options, NULL, &result));
    CHECK_REFUSED(kael_gpt_generate(gpt, prompt, 0, &options, again, &result));
    CHECK_REFUSED(kael_gpt_generate(gpt, NULL, 2, &options, again, &result));
    CHECK_REFUSED(kael_gpt_generate(NULL, prompt, 2, &options, again, &result));
    CHECK_REFUSED(kael_gpt_generate(gpt, prompt, 2, NULL, again, &result));
    CHECK_REFUSED(kael_gpt_generate(gpt, prompt, 2, &options, again, NULL));
    options.max_tokens = -1;
    CHECK_REFUSED(kael_gpt_generate(gpt, prompt, 2, &options, again, &result));
    kael_gpt_free(gpt);
}

static void sampling(void) {
    const float logits[4] = {0.0F, 3.0F, 3.0F, 1.0F};
    const int64_t seen[2] = {1, 1};
    const kael_logit_bias bias = {0, 10.0};
    int64_t token = -1;
    kael_generate_options options;
    kael_generate_options_default(&options);
    CHECK(options.top_p == 1 && options.min_p == 0 && options.repetition_penalty == 1);
    CHECK(options.presence_penalty == 0 && options.frequency_penalty == 0);
    options.temperature = 0;
    CHECK_OK(kael_sample_next(logits, 4, &options, NULL, 0, NULL, 0, 0.5, &token));
    CHECK(token == 1); /* ties go to the lowest id */
    options.frequency_penalty = 0.5;
    CHECK_OK(kael_sample_next(logits, 4, &options, seen, 2, NULL, 0, 0.5, &token));
    CHECK(token == 1); /* the prompt is not what was generated */
    CHECK_OK(kael_sample_next(logits, 4, &options, NULL, 0, seen, 2, 0.5, &token));
    CHECK(token == 2);
    options.logit_biases = &bias;
    options.logit_bias_count = 1;
    CHECK_OK(kael_sample_next(logits, 4, &options, NULL, 0, seen, 2, 0.5, &token));
    CHECK(token == 0);
    options.logit_biases = NULL;
    CHECK_REFUSED_SAYING(kael_sample_next(logits, 4, &options, NULL, 0, NULL, 0, 0.5, &token),
                         "the argument options->logit_biases is null");
    kael_generate_options_default(&options);
    options.top_k = 1;
    CHECK_OK(kael_sample_next(logits, 4, &options, NULL, 0, NULL, 0, 0.99, &token));
    CHECK(token == 1);
    options.top_k = 0;
    CHECK_REFUSED(kael_sample_next(logits, 4, &options, NULL, 0, NULL, 0, 1.0, &token));
    CHECK_REFUSED(kael_sample_next(logits, 0, &options, NULL, 0, NULL, 0, 0.5, &token));
    CHECK_REFUSED(kael_sample_next(NULL, 4, &options, NULL, 0, NULL, 0, 0.5, &token));
    CHECK_REFUSED(kael_sample_next(logits, 4, NULL, NULL, 0, NULL, 0, 0.5, &token));
    CHECK_REFUSED(kael_sample_next(logits, 4, &options, NULL, 1, NULL, 0, 0.5, &token));
    CHECK_REFUSED(kael_sample_next(logits, 4, &options, NULL, 0, NULL, -1, 0.5, &token));
    CHECK_REFUSED(kael_sample_next(logits, 4, &options, NULL, 0, NULL, 0, 0.5, NULL));
}

static void token_ring(void) {
    kael_token_ring* ring = NULL;
    CHECK_OK(kael_token_ring_create(4, &ring));
    CHECK(kael_token_ring_descriptor(ring) >= 0);
    CHECK(kael_token_ring_push(ring, 11) == KAEL_TOKEN_CONTINUE);
    CHECK(kael_token_ring_push(ring, 12) == KAEL_TOKEN_CONTINUE);
    CHECK(kael_token_ring_stopping(ring) == 0);
    kael_token_ring_stop(ring);
    CHECK(kael_token_ring_stopping(ring) == 1);
    kael_token_ring_finish(ring);
    kael_token_record records[8];
    int64_t count = 0;
    uint8_t done = 0;
    CHECK_OK(kael_token_ring_drain(ring, records, 1, &count, &done));
    CHECK(count == 1 && records[0].token == 11 && done == 0);
    CHECK_OK(kael_token_ring_drain(ring, records, 8, &count, &done));
    CHECK(count == 1 && records[0].token == 12 && done == 1);
    kael_token_ring_free(ring);

    CHECK_OK(kael_token_ring_create(4, &ring));
    CHECK_REFUSED_SAYING(kael_token_ring_drain(ring, records, -1, &count, &done),
                         "a capacity of -1 records, expected 0 or more");
    CHECK_REFUSED_SAYING(kael_token_ring_drain(ring, NULL, 8, &count, &done),
                         "the argument records is null");
    kael_token_ring_finish(ring);
    kael_token_ring_free(ring);
    CHECK_REFUSED(kael_token_ring_create(-1, &ring));
    CHECK_REFUSED(kael_token_ring_create(4, NULL));
    CHECK_REFUSED(kael_token_ring_drain(NULL, records, 8, &count, &done));
}

/* Convention 6: a newer caller and an older library agree, and the other way round. */
static void structs_of_another_age(void) {
    kael_gpt* gpt = tiny_model();
    struct Newer {
        kael_gpt_config config;
        int64_t later;
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.config.struct_size = (int64_t)sizeof newer;
    CHECK_OK(kael_gpt_get_config(gpt, &newer.config));
    CHECK(newer.config.layers == 1 && newer.config.struct_size == (int64_t)sizeof newer);
    CHECK(newer.later == 0);
    kael_gpt* copy = NULL;
    CHECK_OK(kael_gpt_create(&newer.config, &copy));
    kael_gpt_free(copy);
    newer.later = 1; /* a wish that this library cannot know: not to be ignored */
    CHECK(kael_gpt_create(&newer.config, &copy) == KAEL_UNSUPPORTED);

    kael_gpt_config wrong = newer.config;
    wrong.struct_size = 0;
    CHECK_REFUSED(kael_gpt_create(&wrong, &copy));
    CHECK_REFUSED(kael_gpt_get_config(gpt, &wrong));
    wrong.struct_size = -8;
    CHECK_REFUSED(kael_gpt_create(&wrong, &copy));
    wrong.struct_size = 4097; /* never filled in */
    CHECK_REFUSED_SAYING(kael_gpt_create(&wrong, &copy),
                         "the struct_size of config is 4097, expected at most 4096");
    kael_gpt_free(gpt);
}

static void freeing_null_does_nothing(void) {
    kael_tensor_free(NULL);
    kael_tensor_map_free(NULL);
    kael_tokenizer_free(NULL);
    kael_gpt_free(NULL);
    kael_token_ring_finish(NULL);
    kael_token_ring_free(NULL);
    kael_token_ring_stop(NULL);
}

static void null_arguments_are_refused_by_name(void) {
    kael_gpt_config config;
    kael_gpt_config_default(&config);
    int64_t number = 0;
    CHECK_REFUSED(kael_gpt_create(NULL, NULL));
    CHECK_REFUSED(kael_gpt_create(&config, NULL));
    CHECK_REFUSED(kael_gpt_load(NULL, 1, KAEL_WEIGHTS_FLOAT32, NULL));
    CHECK_REFUSED(kael_gpt_load_weights(NULL, "x", 1));
    CHECK_REFUSED(kael_gpt_get_config(NULL, &config));
    CHECK_REFUSED(kael_gpt_parameter_count(NULL, &number));
    CHECK_REFUSED(kael_gpt_activations(NULL, &number, 1, NULL));
    CHECK_REFUSED(kael_tensor_map_create(NULL));
    CHECK_REFUSED(kael_tensor_map_size(NULL, &number));
    CHECK_REFUSED(kael_tensor_map_metadata_size(NULL, &number));
    CHECK_REFUSED(kael_tensor_map_add(NULL, "x", 1, NULL));
    CHECK_REFUSED(kael_tensor_map_add_metadata(NULL, "x", 1, "y", 1));
    CHECK_REFUSED(kael_safetensors_load(NULL, 1, KAEL_LOAD_COPY, NULL));
    CHECK_REFUSED(kael_safetensors_save(NULL, "x", 1));
    CHECK_REFUSED(kael_tokenizer_load(NULL, 1, NULL, 1, NULL));
    CHECK_REFUSED(kael_tokenizer_vocabulary_size(NULL, &number));
    CHECK_REFUSED(kael_tokenizer_end_of_text(NULL, &number));
    CHECK_REFUSED(kael_measure_read_bandwidth(1, 1, NULL));
    CHECK_REFUSED(kael_measure_multiply_add(KAEL_WEIGHTS_FLOAT32, 1, 1, NULL));
    CHECK(strstr(kael_last_error_message(NULL), "null") != NULL);
    kael_gpt_config_default(NULL);
    kael_generate_options_default(NULL);
}

static void precision_of_products(void) {
    CHECK(kael_get_float32_matmul_precision() == KAEL_MATMUL_HIGHEST);
    CHECK_OK(kael_set_float32_matmul_precision(KAEL_MATMUL_MEDIUM));
    CHECK(kael_get_float32_matmul_precision() == KAEL_MATMUL_MEDIUM);
    CHECK_REFUSED_SAYING(kael_set_float32_matmul_precision(2),
                         "expected 0 (highest) or 1 (medium)");
    CHECK(kael_get_float32_matmul_precision() == KAEL_MATMUL_MEDIUM);
    CHECK_OK(kael_set_float32_matmul_precision(KAEL_MATMUL_HIGHEST));
}

static void limits_of_the_machine(void) {
    double speed = 0;
    CHECK_OK(kael_measure_read_bandwidth(1, 1, &speed));
    CHECK(speed > 1e7 && speed < 1e14);
    for (kael_weight_format format = KAEL_WEIGHTS_FLOAT32; format <= KAEL_WEIGHTS_INT4; ++format) {
        speed = 0;
        CHECK_OK(kael_measure_multiply_add(format, 1, 1, &speed));
        CHECK(speed > 0);
    }
    CHECK(kael_measure_multiply_add(4, 1, 1, &speed) == KAEL_UNSUPPORTED);
    CHECK(speed > 1e7 && speed < 1e15);
    CHECK_REFUSED(kael_measure_read_bandwidth(0, 1, &speed));
    CHECK_REFUSED(kael_measure_multiply_add(KAEL_WEIGHTS_INT8, 1, 0, &speed));
}

int main(int argument_count, char** arguments) {
    if (argument_count != 2) {
        fprintf(stderr, "usage: %s FOLDER (for the files that the test writes)\n", arguments[0]);
        return 2;
    }
    version_and_errors();
    settings();
    tensors();
    borrowed_memory();
    operators();
    gradients();
    call_sites();
    idx_files();
    named_tensors(arguments[1]);
    tokenizer(arguments[1]);
    model();
    generation();
    sampling();
    token_ring();
    structs_of_another_age();
    null_arguments_are_refused_by_name();
    freeing_null_does_nothing();
    precision_of_products();
    limits_of_the_machine();
    return failures == 0 ? 0 : 1;
}

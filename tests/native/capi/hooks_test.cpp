// Hooks through the C interface: their removal, also by what their release calls.
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "kael/kael.h"

#include "capi/owned_handle.h"

namespace {

using kael::test::Handle;
using kael::test::TensorHandle;
using NodeHandle = Handle<kael_node, kael_node_free>;

void make_leaf(TensorHandle& leaf) {
    const float value = 3;
    ASSERT_EQ(kael_tensor_from_bytes(KAEL_FLOAT32, nullptr, 0, &value, sizeof value, &leaf),
              KAEL_OK);
    ASSERT_EQ(kael_tensor_set_requires_grad(leaf, 1), KAEL_OK);
}

void square(const TensorHandle& x, TensorHandle& result) {
    kael_argument argument = {};
    argument.kind = KAEL_ARGUMENT_TENSOR;
    argument.tensor = x;
    std::int64_t count = 0;
    ASSERT_EQ(kael_apply("square", 6, &argument, 1, &result, 1, &count), KAEL_OK);
}

// Removes itself again when it is released.
struct Hook {
    const kael_tensor* tensor = nullptr;
    const kael_node* node = nullptr;
    std::int64_t number = 0;
    int calls = 0;
    int releases = 0;

    static std::int32_t call(kael_tensor* gradient, kael_tensor** /*replacement*/,
                             void* user_data) {
        kael_tensor_free(gradient);
        ++static_cast<Hook*>(user_data)->calls;
        return 0;
    }
    static std::int32_t call_after(kael_tensor** gradients, std::int64_t count, kael_tensor* taken,
                                   kael_tensor** /*replacements*/, std::uint8_t* /*replaces*/,
                                   void* user_data) {
        for (std::int64_t i = 0; i < count; ++i) {
            kael_tensor_free(gradients[i]);
        }
        return call(taken, nullptr, user_data);
    }
    static void release(void* user_data) {
        Hook& hook = *static_cast<Hook*>(user_data);
        ++hook.releases;
        hook.remove();
    }

    void remove() const {
        if (tensor != nullptr) {
            EXPECT_EQ(kael_tensor_remove_hook(tensor, number), KAEL_OK);
        }
        if (node != nullptr) {
            EXPECT_EQ(kael_node_remove_hook(node, number), KAEL_OK);
        }
    }
};

TEST(CHooks, TheReleaseOfATensorsOnlyHookMayRemoveItAgain) {
    TensorHandle leaf;
    make_leaf(leaf);
    TensorHandle result;
    square(leaf, result);
    for (const TensorHandle* const handle : {std::addressof(leaf), std::addressof(result)}) {
        kael_tensor* const tensor = *handle;
        Hook hook;
        hook.tensor = tensor;
        ASSERT_EQ(kael_tensor_add_hook(tensor, Hook::call, Hook::release, &hook, &hook.number),
                  KAEL_OK);
        hook.remove();
        EXPECT_EQ(hook.releases, 1);
        hook.remove();
        EXPECT_EQ(hook.releases, 1);
    }
    EXPECT_EQ(kael_backward(&result, nullptr, 1, 0), KAEL_OK);
}

TEST(CHooks, TheReleaseOfANodesOnlyHookMayRemoveItAgain) {
    TensorHandle leaf;
    make_leaf(leaf);
    TensorHandle result;
    square(leaf, result);
    NodeHandle node;
    ASSERT_EQ(kael_tensor_node(result, &node), KAEL_OK);
    Hook before;
    Hook after;
    before.node = after.node = node;
    ASSERT_EQ(kael_node_add_prehook(node, Hook::call, Hook::release, &before, &before.number),
              KAEL_OK);
    ASSERT_EQ(kael_node_add_hook(node, Hook::call_after, Hook::release, &after, &after.number),
              KAEL_OK);
    EXPECT_EQ(kael_backward(&result, nullptr, 1, KAEL_RETAIN_GRAPH), KAEL_OK);
    for (Hook* const hook : {&before, &after}) {
        EXPECT_EQ(hook->calls, 1);
        hook->remove();
        EXPECT_EQ(hook->releases, 1);
    }
    EXPECT_EQ(kael_backward(&result, nullptr, 1, 0), KAEL_OK);
    EXPECT_EQ(before.calls + after.calls, 2);
}

} // namespace

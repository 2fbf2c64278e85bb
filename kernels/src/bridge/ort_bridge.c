/*
 * The one piece of C between ONNX Runtime and the JVM. ONNX Runtime looks up CreateEpFactories and
 * ReleaseEpFactory in the library it is given; Java loads the same file first and installs upcall
 * stubs. One image of this library serves one Java provider: each provider gets its own copy of
 * the file, so the statics below are never shared.
 *
 * ONNX Runtime's C types are opaque here on purpose: the layouts live in one Java table.
 */
#include <stddef.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef void *(*create_ep_factories_fn)(const char *name, const void *api_base,
                                        const void *logger, void **factories,
                                        size_t max_factories, size_t *num_factories);
typedef void *(*release_ep_factory_fn)(void *factory);

/* Written once by Java before the library is registered, read by ONNX Runtime's threads. */
static create_ep_factories_fn create_ep_factories;
static release_ep_factory_fn release_ep_factory;

EXPORT void expertbank_install(create_ep_factories_fn create, release_ep_factory_fn release) {
    create_ep_factories = create;
    release_ep_factory = release;
}

EXPORT void *CreateEpFactories(const char *name, const void *api_base, const void *logger,
                               void **factories, size_t max_factories, size_t *num_factories) {
    if (create_ep_factories == NULL) {
        /* Registered before Java installed its stubs. No status can be made without the API
         * table's layout, so report "no factories": ONNX Runtime then finds no device for it. */
        *num_factories = 0;
        return NULL;
    }
    return create_ep_factories(name, api_base, logger, factories, max_factories, num_factories);
}

EXPORT void *ReleaseEpFactory(void *factory) {
    return release_ep_factory == NULL ? NULL : release_ep_factory(factory);
}

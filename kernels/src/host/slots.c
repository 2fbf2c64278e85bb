#define _DEFAULT_SOURCE

#include "qmoe_host.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

void *expertbank_slot_commit(int64_t bytes) {
    if (bytes <= 0) {
        return NULL;
    }
    void *slot = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return slot == MAP_FAILED ? NULL : slot;
}

int32_t expertbank_slot_release(void *slot, int64_t bytes) {
    return munmap(slot, (size_t)bytes) == 0 ? 0 : 1;
}

int64_t expertbank_page_bytes(void) {
    return sysconf(_SC_PAGESIZE);
}

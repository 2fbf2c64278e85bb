/**
 * Who may hold how many bytes of which memory. One {@link dev.expertbank.memory.MemoryGovernor} per
 * device keeps the books; whoever allocates claims first, and nobody frees the memory of another
 * holder: the governor asks it.
 */
@NullMarked
package dev.expertbank.memory;

import org.jspecify.annotations.NullMarked;

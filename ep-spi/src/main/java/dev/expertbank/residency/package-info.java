/**
 * Which experts are kept in fast memory: the model of residency, its policies and the step that
 * applies them between runs. Pure: no pointer, no device, no thread and no clock. A live bank and
 * the simulator drive the same code, so they agree on every hit and every byte.
 */
@NullMarked
package dev.expertbank.residency;

import org.jspecify.annotations.NullMarked;

/**
 * The arithmetic of {@code com.microsoft::QMoE}: what a node asks for, whether it can be computed,
 * and where each expert's bytes are. Pure: no file is opened, no memory is mapped.
 */
@NullMarked
package dev.expertbank.spi.qmoe;

import org.jspecify.annotations.NullMarked;

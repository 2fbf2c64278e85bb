/** The {@code qmoe} program. */
@NullMarked
package dev.expertbank.cli;

import org.jspecify.annotations.NullMarked;

/**
 * The {@code qmoe} command line: data goes to standard output, everything else to standard error.
 */
@NullMarked
package dev.expertbank.model.cli;

import org.jspecify.annotations.NullMarked;

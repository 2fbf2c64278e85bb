@NullMarked
package dev.expertbank.model.cli;

import org.jspecify.annotations.NullMarked;

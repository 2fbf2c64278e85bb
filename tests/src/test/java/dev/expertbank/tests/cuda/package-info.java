/** The GPU device on a GPU. Where there is none, each test says why it does not run. */
@NullMarked
package dev.expertbank.tests.cuda;

import org.jspecify.annotations.NullMarked;

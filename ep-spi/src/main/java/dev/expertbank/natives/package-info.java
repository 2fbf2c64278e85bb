/** Native libraries from the class path: found by platform, extracted once, verified, loaded. */
@NullMarked
package dev.expertbank.natives;

import org.jspecify.annotations.NullMarked;

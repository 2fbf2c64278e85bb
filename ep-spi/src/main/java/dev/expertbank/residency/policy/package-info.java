/** The residency policies that come with the library. */
@NullMarked
package dev.expertbank.residency.policy;

import org.jspecify.annotations.NullMarked;

/**
 * State groups of compressed sparse attention (CSA) and hierarchical compressed attention (HCA):
 * which ones can run, and the ledger that admits their memory through the governor.
 */
@NullMarked
package dev.expertbank.state;

import org.jspecify.annotations.NullMarked;

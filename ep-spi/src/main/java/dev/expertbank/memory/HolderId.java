package dev.expertbank.memory;

/**
 * Identifies one owner of memory, such as the expert bank of one session; {@link
 * MemoryGovernor#newHolder} makes it.
 *
 * @param authority the books that the holder claims from
 * @param number unique within the authority, ascending in the order of creation
 * @param name what messages and reports call the holder; need not be unique
 */
public record HolderId(MemoryAuthorityId authority, long number, String name) {
  @Override
  public String toString() {
    return name + " (#" + number + ")";
  }
}

package dev.expertbank.spi.qmoe;

import java.util.List;

/**
 * Everything that belongs to one expert of one node. An expert is moved as a whole or not at all.
 *
 * @param members one per expert tensor of the node, in slot order
 */
public record ExpertGroup(int expert, List<Member> members) {
  public ExpertGroup {
    members = List.copyOf(members);
  }

  /**
   * The expert's bytes of one tensor.
   *
   * @param location of the external file as the model states it
   * @param region in that file
   */
  public record Member(QMoeInput input, String location, ExpertRegion region) {}

  /** Bytes of all members. */
  public long bytes() {
    return members.stream().mapToLong(member -> member.region().length()).sum();
  }
}

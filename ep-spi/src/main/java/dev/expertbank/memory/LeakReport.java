package dev.expertbank.memory;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Prints what has not been given back, by holder. */
final class LeakReport {
  private LeakReport() {}

  static String of(
      MemoryAuthorityId authority, List<OutstandingClaim> claims, List<HolderId> registered) {
    Map<HolderId, List<String>> byHolder =
        new TreeMap<>(Comparator.comparingLong(HolderId::number));
    for (OutstandingClaim claim : claims) {
      lines(byHolder, claim.holder()).add(claim.tier() + " " + claim.line());
    }
    for (HolderId holder : registered) {
      lines(byHolder, holder).add("registered as reclaimable");
    }
    if (byHolder.isEmpty()) {
      return "";
    }
    StringBuilder out = new StringBuilder(authority.device());
    byHolder.forEach(
        (holder, lines) -> {
          out.append("\n  ").append(holder);
          lines.forEach(line -> out.append("\n    ").append(line));
        });
    return out.toString();
  }

  private static List<String> lines(Map<HolderId, List<String>> byHolder, HolderId holder) {
    return byHolder.computeIfAbsent(holder, any -> new ArrayList<>());
  }
}

package dev.expertbank.model.cli;

import dev.expertbank.spi.ByteSize;
import dev.expertbank.spi.Printable;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Fast memory for experts, as an argument states it. */
sealed interface Budget {
  /** The budget in bytes, for a bank whose experts take these slot bytes together. */
  long bytes(long bankBytes);

  /** A number of bytes. */
  record Stated(long size) implements Budget {
    @Override
    public long bytes(long bankBytes) {
      return size;
    }
  }

  /** A part of what all experts take, rounded down. */
  record Percent(BigDecimal percent) implements Budget {
    private static final int HUNDREDTHS = 2;

    @Override
    public long bytes(long bankBytes) {
      return percent
          .multiply(BigDecimal.valueOf(bankBytes))
          .movePointLeft(HUNDREDTHS)
          .setScale(0, RoundingMode.DOWN)
          .longValueExact();
    }
  }

  /** Reads a budget for picocli. */
  final class Converter implements ITypeConverter<Budget> {
    private static final Pattern PERCENT = Pattern.compile("([0-9]{1,3}(?:\\.[0-9]{1,6})?)%");
    private static final BigDecimal ALL = BigDecimal.valueOf(100);

    @Override
    public Budget convert(String text) {
      Matcher syntax = PERCENT.matcher(text);
      if (syntax.matches()) {
        BigDecimal percent = new BigDecimal(syntax.group(1));
        if (percent.compareTo(ALL) > 0) {
          throw new TypeConversionException(Printable.quote(text) + " is more than all experts");
        }
        return new Percent(percent);
      }
      try {
        return new Stated(ByteSize.parse(text));
      } catch (IllegalArgumentException e) {
        throw new TypeConversionException(e.getMessage() + ", or a part of the bank such as 25%");
      }
    }
  }

  /** Reads a number of bytes for picocli. */
  final class BytesConverter implements ITypeConverter<Long> {
    @Override
    public Long convert(String text) {
      try {
        return ByteSize.parse(text);
      } catch (IllegalArgumentException e) {
        throw new TypeConversionException(e.getMessage());
      }
    }
  }
}

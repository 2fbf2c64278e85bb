#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double decode_small(uint32_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = bits & ((1u << mantissa_bits) - 1);
    double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) {
        return mantissa != 0 ? NAN : sign * INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    }
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static uint32_t encode_small(double value, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    uint32_t sign = signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
    if (isnan(value)) {
        return sign | infinity | 1u << (mantissa_bits - 1);
    }
    double magnitude = fabs(value);
    if (isinf(value)) {
        return sign | infinity;
    }
    int exponent = magnitude == 0 ? 1 - bias : ilogb(magnitude);
    if (exponent < 1 - bias) {
        exponent = 1 - bias;
    }
    /* In units of the last place; a carry into the next exponent is the right encoding by itself. */
    uint32_t units = (uint32_t)nearbyint(ldexp(magnitude, mantissa_bits - exponent));
    uint32_t encoded = ((uint32_t)(exponent + bias - 1) << mantissa_bits) + units;
    return sign | (encoded > infinity ? infinity : encoded);
}

double reference_element(int32_t type, const void *tensor, int64_t index) {
    if (type == EB_FLOAT) {
        float value;
        memcpy(&value, (const char *)tensor + 4 * index, 4);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)tensor + 2 * index, 2);
    return type == EB_FLOAT16 ? decode_small(bits, 5, 10) : decode_small(bits, 8, 7);
}

uint32_t reference_encode(int32_t type, double value) {
    if (type == EB_FLOAT) {
        float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        return bits;
    }
    return type == EB_FLOAT16 ? encode_small(value, 5, 10) : encode_small(value, 8, 7);
}

/* 1 where expert a goes before expert b. */
static int chosen_before(const double *logits, int a, int b, int routing) {
    double x = isnan(logits[a]) ? -INFINITY : logits[a];
    double y = isnan(logits[b]) ? -INFINITY : logits[b];
    if (isnan(logits[a]) != isnan(logits[b]) && x == y) {
        return isnan(logits[b]);
    }
    if (x != y) {
        return x > y;
    }
    return routing == EB_ROUTING_ORT_CPU ? a > b : a < b;
}

static double share(double logit, double largest) {
    if (isnan(logit) || logit == -INFINITY) {
        return 0;
    }
    return logit == largest ? 1 : exp(logit - largest);
}

void reference_route(const eb_qmoe_run *run, int64_t token, int32_t *experts, double *weights) {
    const eb_qmoe_spec *s = run->spec;
    int cuda = s->routing == EB_ROUTING_ORT_CUDA;
    double *logits = malloc(sizeof(double) * (size_t)s->experts);
    double all = 0, chosen = 0, raw = 0;
    for (int e = 0; e < s->experts; e++) {
        logits[e] = reference_element(s->io_type, run->router, token * s->experts + e);
    }
    /* An expert's rank is the number of experts that go before it. */
    int first = -1;
    for (int e = 0; e < s->experts; e++) {
        int rank = 0;
        for (int other = 0; other < s->experts; other++) {
            rank += other != e && chosen_before(logits, other, e, s->routing);
        }
        if (rank < s->top_k) {
            experts[rank] = e;
        }
        if (rank == 0) {
            first = e;
        }
    }
    for (int e = 0; e < s->experts; e++) {
        all += share(logits[e], logits[first]);
    }
    for (int i = 0; i < s->top_k; i++) {
        chosen += share(logits[experts[i]], logits[first]);
        if (run->router_weights != NULL) {
            raw += reference_element(s->io_type, run->router_weights, token * s->experts + experts[i]);
        }
    }
    for (int i = 0; i < s->top_k; i++) {
        double numerator = share(logits[experts[i]], logits[first]);
        double denominator = chosen;
        if (cuda && !(s->normalize && chosen / all > 1e-6)) {
            denominator = all;
        }
        weights[i] = denominator > 0 ? numerator / denominator : 0;
        if (!cuda && run->router_weights != NULL) {
            weights[i] = reference_element(s->io_type, run->router_weights, token * s->experts + experts[i]);
            if (s->normalize) {
                weights[i] = raw != 0 ? weights[i] / raw : 0;
            }
        }
        if (!(weights[i] > (cuda ? 0 : 1e-8))) {
            weights[i] = 0;
            experts[i] = -1;
        }
    }
    free(logits);
}

static int read_bits(const uint8_t *bytes, int64_t index, int bits) {
    int value = 0;
    for (int b = 0; b < bits; b++) {
        int64_t bit = index * bits + b;
        value |= (bytes[bit / 8] >> (bit % 8) & 1) << b;
    }
    return value;
}

/* y[n] = bias[n] + sum over k of scale (q - zero point) x[k] */
static void dense(const eb_qmoe_spec *s, const eb_expert_row *row, int which, int64_t n_rows, int64_t k_columns,
                  const double *x, double *y) {
    int64_t block = s->block_size ? s->block_size : k_columns;
    int64_t blocks = (k_columns + block - 1) / block;
    const uint8_t *weight = row->weight[which];
    const uint8_t *zero_points = row->zero_point[which];
    int64_t zero_point_row = (blocks * s->bits + 7) / 8;
    for (int64_t n = 0; n < n_rows; n++) {
        double sum = row->bias[which] ? reference_element(s->io_type, row->bias[which], n) : 0;
        for (int64_t b = 0; b < blocks; b++) {
            int zero = 1 << (s->bits - 1);
            if (zero_points != NULL) {
                zero = s->block_size ? read_bits(zero_points + n * zero_point_row, b, s->bits)
                                     : read_bits(zero_points, n, s->bits);
            }
            double scale = reference_element(s->scale_type, row->scale[which], n * blocks + b);
            for (int64_t k = b * block; k < (b + 1) * block && k < k_columns; k++) {
                sum += scale * (read_bits(weight + n * (k_columns * s->bits / 8), k, s->bits) - zero) * x[k];
            }
        }
        y[n] = sum;
    }
}

static double act(const eb_qmoe_spec *s, double x) {
    switch (s->activation) {
    case EB_RELU: return x > 0 ? x : 0;
    case EB_GELU: return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    case EB_SILU: return x / (1 + exp(-x));
    case EB_SWIGLU: {
        double g = fmin(x, (double)s->limit);
        return g / (1 + exp(-(double)s->alpha * g));
    }
    default: return x;
    }
}

static double linear_half(const eb_qmoe_spec *s, double l) {
    if (s->activation != EB_SWIGLU) {
        return l;
    }
    return fmax(-(double)s->limit, fmin(l, (double)s->limit)) + (double)s->beta;
}

static void expert_output(const eb_qmoe_spec *s, const eb_expert_row *row, const double *x, double *y) {
    int64_t inter = s->inter;
    int fusion = s->activation == EB_SWIGLU ? s->swiglu_fusion : 0;
    double *c = malloc(sizeof(double) * (size_t)inter * 2);
    double *up = malloc(sizeof(double) * (size_t)inter);
    double *h = malloc(sizeof(double) * (size_t)inter);
    dense(s, row, 0, fusion ? 2 * inter : inter, s->hidden, x, c);
    if (s->has_fc3) {
        dense(s, row, 2, inter, s->hidden, x, up);
    }
    for (int64_t i = 0; i < inter; i++) {
        switch (fusion) {
        case 1: h[i] = act(s, c[2 * i]) * linear_half(s, c[2 * i + 1]); break;
        case 2: h[i] = act(s, c[i]) * linear_half(s, c[inter + i]); break;
        default: h[i] = act(s, c[i]) * (s->has_fc3 ? linear_half(s, up[i]) : 1); break;
        }
    }
    dense(s, row, 1, s->hidden, inter, h, y);
    free(c);
    free(up);
    free(h);
}

void reference_run(const eb_qmoe_run *run, double *output) {
    const eb_qmoe_spec *s = run->spec;
    int32_t *experts = malloc(sizeof(int32_t) * (size_t)s->top_k);
    double *weights = malloc(sizeof(double) * (size_t)s->top_k);
    double *x = malloc(sizeof(double) * (size_t)s->hidden);
    double *y = malloc(sizeof(double) * (size_t)s->hidden);
    for (int64_t token = 0; token < run->tokens; token++) {
        double *out = output + token * s->hidden;
        reference_route(run, token, experts, weights);
        for (int64_t k = 0; k < s->hidden; k++) {
            x[k] = reference_element(s->io_type, run->input, token * s->hidden + k);
            out[k] = 0;
        }
        for (int i = 0; i < s->top_k; i++) {
            if (experts[i] >= 0) {
                expert_output(s, &run->rows[experts[i]], x, y);
                for (int64_t k = 0; k < s->hidden; k++) {
                    out[k] += weights[i] * y[k];
                }
            }
        }
    }
    free(experts);
    free(weights);
    free(x);
    free(y);
}

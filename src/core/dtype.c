/* dtype.c - sizes, names and operators of the element types. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "dtype.h"

#include <assert.h>

#define OP(name)    (1u << TC_REDUCE_##name)
#define OPS_REAL    (OP(SUM) | OP(AVG) | OP(MAX) | OP(MIN) | OP(PROD))
#define OPS_COMPLEX (OP(SUM) | OP(AVG) | OP(PROD))
#define OPS_BITS    (OP(BAND) | OP(BOR) | OP(BXOR))
#define OPS_INTEGER (OPS_REAL | OPS_BITS)
#define OPS_BOOL    (OP(SUM) | OP(MAX) | OP(MIN) | OP(PROD) | OPS_BITS)

struct dtype_row {
    const char *name; /* static; NULL where the number is no type that is carried */
    size_t size;
    unsigned ops; /* bit k is set when the operator k is defined */
};

static const struct dtype_row dtypes[TCI_DTYPE_COUNT] = {
    [TC_DTYPE_F16] = {"f16", 2, OPS_REAL},       [TC_DTYPE_BF16] = {"bf16", 2, OPS_REAL},
    [TC_DTYPE_F32] = {"f32", 4, OPS_REAL},       [TC_DTYPE_F64] = {"f64", 8, OPS_REAL},
    [TC_DTYPE_I8] = {"i8", 1, OPS_INTEGER},      [TC_DTYPE_U8] = {"u8", 1, OPS_INTEGER},
    [TC_DTYPE_I16] = {"i16", 2, OPS_INTEGER},    [TC_DTYPE_U16] = {"u16", 2, OPS_INTEGER},
    [TC_DTYPE_I32] = {"i32", 4, OPS_INTEGER},    [TC_DTYPE_U32] = {"u32", 4, OPS_INTEGER},
    [TC_DTYPE_I64] = {"i64", 8, OPS_INTEGER},    [TC_DTYPE_U64] = {"u64", 8, OPS_INTEGER},
    [TC_DTYPE_F8E4M3] = {"f8e4m3", 1, OPS_REAL}, [TC_DTYPE_F8E5M2] = {"f8e5m2", 1, OPS_REAL},
    [TC_DTYPE_BOOL] = {"bool", 1, OPS_BOOL},     [TC_DTYPE_C64] = {"c64", 8, OPS_COMPLEX},
};

static const char *const op_names[] = {
    [TC_REDUCE_SUM] = "sum", [TC_REDUCE_AVG] = "avg",   [TC_REDUCE_MAX] = "max",
    [TC_REDUCE_MIN] = "min", [TC_REDUCE_PROD] = "prod", [TC_REDUCE_BAND] = "band",
    [TC_REDUCE_BOR] = "bor", [TC_REDUCE_BXOR] = "bxor",
};

static_assert(sizeof(op_names) / sizeof(op_names[0]) == TCI_REDUCE_OP_COUNT,
              "every operator has a name");
static_assert(sizeof(float) == 4 && sizeof(double) == 8, "f32 and f64 are float and double");

/* The row of a type, or NULL for a number that is none; any int may come in. */
static const struct dtype_row *find_dtype(tc_dtype_t dtype)
{
    int index = (int)dtype;

    if (index < 0 || index >= TCI_DTYPE_COUNT || dtypes[index].name == NULL)
        return NULL;
    return &dtypes[index];
}

static int is_op(tc_reduce_op_t op)
{
    return (int)op >= 0 && (int)op < TCI_REDUCE_OP_COUNT;
}

size_t tc_dtype_size(tc_dtype_t dtype)
{
    const struct dtype_row *row = find_dtype(dtype);

    return row == NULL ? 0 : row->size;
}

const char *tc_dtype_name(tc_dtype_t dtype)
{
    const struct dtype_row *row = find_dtype(dtype);

    return row == NULL ? "unknown" : row->name;
}

const char *tc_reduce_op_name(tc_reduce_op_t op)
{
    return is_op(op) ? op_names[op] : "unknown";
}

tc_status_t tc_reduce_supported(tc_dtype_t dtype, tc_reduce_op_t op)
{
    const struct dtype_row *row = find_dtype(dtype);

    if (!is_op(op))
        return TC_ERR_INVALID_ARG;
    if (row == NULL)
        return TC_ERR_UNSUPPORTED_DTYPE;
    return (row->ops >> op & 1) != 0 ? TC_OK : TC_ERR_UNSUPPORTED;
}

import {
  documentOf,
  fittedValue,
  jsonTypeOf,
  literalFrom,
  typesOf,
  type JsonType,
  type Reading,
} from '@x/internal'
import type { SchemaCheck, ValidationError } from '@x/internal/schema-check'
import type { JsonSchema } from '../tool-source.ts'

/** Text inside of JSON text inside of JSON text. More levels are a mistake that the model should see. */
const MAX_NESTING = 4

interface FittedArguments {
  readonly value: unknown
  /** Why the schema still refuses the value. */
  readonly errors: readonly ValidationError[]
}

/**
 * Returns the arguments of a model, with what models are known to write instead of the value that they mean, repaired:
 * `null` for an optional parameter is left out (NeMo#1269), and JSON text where no text fits becomes its value: an
 * object or a list (LibreChat#11905), a number, or `true` or `false` (claude-code#59227).
 *
 * Only values that the schema refuses change, and only if no other type fits at their place. Arguments that the schema
 * accepts, and arguments of a schema with a defect, are the same object.
 */
export function fittedArguments(
  given: unknown,
  schema: JsonSchema,
  check: Pick<SchemaCheck, 'locatedErrors'>,
): FittedArguments {
  let value = given
  let errors = check.locatedErrors(value)
  for (let round = 0; round < MAX_NESTING && errors.length > 0; round++) {
    const refused = new Set(errors.map(({ place }) => pointerFrom(place)))
    const part = { schema, document: documentOf(schema) }
    const fitted = fittedValue(value, part, { reading: READING, refused })
    if (fitted === value) break
    value = fitted
    errors = check.locatedErrors(value)
  }
  return { value, errors }
}

/** The validator writes a pointer as the fragment of a URI. */
function pointerFrom(fragment: string): string {
  return decodeURIComponent(fragment.slice(1))
}

const READING: Reading = {
  meantBy: (value, part) => {
    const meant = typeof value === 'string' ? valueOf(value, typesOf(part)) : undefined
    return meant === undefined ? value : meant
  },
  isAbsent: (value, part) => value === null && !typesOf(part).includes('null'),
}

/** Returns the value that a text stands for, or undefined if texts fit, or if the value does not. */
function valueOf(text: string, allowed: readonly JsonType[]): unknown {
  if (allowed.includes('string')) return undefined
  const value = literalFrom(text.trim())
  if (value === undefined) return undefined
  // `null` is left out then, if the parameter is optional.
  return value === null || allowed.includes(jsonTypeOf(value)) ? value : undefined
}

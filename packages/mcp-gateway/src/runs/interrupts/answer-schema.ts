import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

import type { JsonSchema } from '../../agents/agent.ts'
import { boundedRegExp } from '../../agents/schema-validator.ts'

const ajv = new Ajv2020({
  strict: false,
  allErrors: false,
  validateFormats: false,
  code: { regExp: boundedRegExp },
})
/** A schema lives as long as its question; what is compiled of it goes with it. */
const validators = new WeakMap<JsonSchema, ValidateFunction>()

/** What is wrong with a value, with the path; `undefined`: nothing. A schema that cannot be used finds nothing wrong. */
export function complaintOf(schema: JsonSchema, value: unknown): string | undefined {
  const validate = validatorOf(schema)
  if (validate === undefined || validate(value)) return undefined
  const [first] = validate.errors ?? []
  return `${first?.instancePath ?? ''} ${first?.message ?? 'does not match'}`.trim()
}

function validatorOf(schema: JsonSchema): ValidateFunction | undefined {
  const known = validators.get(schema)
  if (known !== undefined) return known
  try {
    const validate = ajv.compile(schema)
    validators.set(schema, validate)
    // By object only: ajv's own cache would keep every schema that ever was.
    ajv.removeSchema(schema)
    return validate
  } catch {
    return undefined
  }
}

import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import type { JsonSchema } from './tool-source.ts'

/** How many complaints are told: a model reads the first ones, a wrong union has hundreds. */
const MAX_COMPLAINTS = 5

/** Checks values against one JSON schema. Prepared once, at the first check. */
export class SchemaCheck {
  readonly #schema: JsonSchema
  #validator: Validator | 'unreadable' | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /**
   * What is wrong with a value, one line each; empty if it fits. A schema that cannot be evaluated here
   * (a reference to elsewhere, a pattern that is no JavaScript expression, endless recursion) gives no
   * complaint: the server has the last word on its own arguments.
   */
  complaints(value: unknown): string[] {
    try {
      this.#validator ??= validatorFor(this.#schema)
      if (this.#validator === 'unreadable') return []
      return complaintsFrom(this.#validator.validate(value).errors)
    } catch {
      this.#validator = 'unreadable'
      return []
    }
  }
}

function validatorFor(schema: JsonSchema): Validator {
  // The validator writes into the schema that it is given, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(schema)
  const dialect = schema['$schema']
  const isOld = typeof dialect === 'string' && /draft-0[4-7]/.test(dialect)
  // 2020-12 where nothing is said (specification 2025-11-25, "JSON Schema Usage"); all complaints, not just the first.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

interface Complaint {
  readonly instanceLocation: string
  readonly keyword: string
  readonly error: string
}

/** "Property a does not match" says nothing beside the complaint about `a` itself. */
const WRAPPERS: ReadonlySet<string> = new Set([
  'properties',
  'items',
  'prefixItems',
  '$ref',
  'allOf',
])

function complaintsFrom(errors: readonly Complaint[]): string[] {
  const telling = errors.filter(({ keyword }) => !WRAPPERS.has(keyword))
  const lines = (telling.length > 0 ? telling : errors).map(
    ({ instanceLocation, error }) => `${instanceLocation}: ${error}`,
  )
  const unique = [...new Set(lines)]
  const more = unique.length - MAX_COMPLAINTS
  return more > 0 ? [...unique.slice(0, MAX_COMPLAINTS), `and ${more} more`] : unique
}

import { Validator, type JSONSchema } from '@langchain/core/utils/json_schema'
import { structureDefectOf } from '../schema/schema-defect.ts'
import { validationSchemaFrom } from '../schema/validation-schema.ts'
import type { JsonSchema } from '../catalogue/tool-source.ts'

/** How many complaints are told: a model reads the first ones, a wrong union has hundreds. */
const MAX_COMPLAINTS = 5

const NOTHING: readonly never[] = []

/** What is wrong with a value, and where. */
export interface Complaint {
  /** A JSON pointer into the value, as a fragment: `#/items/0`. */
  readonly place: string
  readonly text: string
}

/**
 * Checks values against one JSON schema, whole: references, unions, conditions, recursion. Prepared once,
 * at the first check. The validator is the interpreter that core has too: one that compiles would be
 * faster for long lists of values, but runs code that it makes from what a server sent.
 */
export class SchemaCheck {
  readonly #schema: JsonSchema
  #validator: Validator | 'unreadable' | undefined

  constructor(schema: JsonSchema) {
    this.#schema = schema
  }

  /**
   * What is wrong with a value, one line each; empty if it fits. A schema that cannot be evaluated here
   * (a reference to elsewhere, endless recursion) gives no complaint: the server has the last word on its
   * own arguments.
   */
  complaints(value: unknown): readonly string[] {
    return linesOf(this.located(value))
  }

  /** The same with the places that the complaints are about. */
  located(value: unknown): readonly Complaint[] {
    try {
      this.#validator ??= validatorFor(this.#schema)
      if (this.#validator === 'unreadable') return NOTHING
      const { valid, errors } = this.#validator.validate(value)
      return valid ? NOTHING : complaintsFrom(errors)
    } catch {
      this.#validator = 'unreadable'
      return NOTHING
    }
  }
}

/** At most a handful: a model reads the first ones. */
export function linesOf(complaints: readonly Complaint[]): readonly string[] {
  if (complaints.length === 0) return NOTHING
  const unique = [...new Set(complaints.map(({ place, text }) => `${place}: ${text}`))]
  const more = unique.length - MAX_COMPLAINTS
  return more > 0 ? [...unique.slice(0, MAX_COMPLAINTS), `and ${more} more`] : unique
}

function validatorFor(schema: JsonSchema): Validator | 'unreadable' {
  // Asked first: references that multiply would keep the validator busy for years.
  if (structureDefectOf(schema) !== undefined) return 'unreadable'
  // The validator writes into the schema that it is given, and a listed schema may be frozen or shared.
  const own: JSONSchema & object = structuredClone(validationSchemaFrom(schema))
  const dialect = schema['$schema']
  const isOld = typeof dialect === 'string' && /draft-0[4-7]/.test(dialect)
  // 2020-12 where nothing is said (specification 2025-11-25, "JSON Schema Usage"); all complaints, not just the first.
  return new Validator(own, isOld ? '7' : '2020-12', false)
}

interface Finding {
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

function complaintsFrom(findings: readonly Finding[]): Complaint[] {
  const telling = findings.filter(({ keyword }) => !WRAPPERS.has(keyword))
  return (telling.length > 0 ? telling : findings).map(({ instanceLocation, error }) => ({
    place: instanceLocation,
    text: error,
  }))
}

import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { FoundDefect } from './found-defect.ts'
import { checkReferences } from './reference-check.ts'
import { SchemaForm } from './schema-form.ts'

/**
 * Why a schema cannot describe the arguments of a tool; `undefined` if it can. Such a tool would spoil a
 * whole request, since providers refuse all tools together. Nothing is fetched.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'))) {
    return structureDefectOf(schema)
  }
  return `arguments are an object, but the schema is of type ${JSON.stringify(type)}`
}

/** A schema is looked at when its tool is made, and again when a model is told of it. */
const defects = new WeakMap<JsonSchema, { readonly defect: string | undefined }>()

/** Why a schema, of whatever values, can neither be followed nor evaluated; `undefined` if it can. */
export function structureDefectOf(schema: JsonSchema): string | undefined {
  const known = defects.get(schema)
  if (known !== undefined) return known.defect
  const defect = defectOf(schema)
  defects.set(schema, { defect })
  return defect
}

function defectOf(schema: JsonSchema): string | undefined {
  try {
    const form = new SchemaForm(schema)
    // Without references every schema applies once at most.
    if (form.referring.length > 0) checkReferences(schema, form)
    return undefined
  } catch (error) {
    if (error instanceof FoundDefect) return error.message
    throw error
  }
}

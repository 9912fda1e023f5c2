import { isRecord } from './is-record.ts'
import { mapSubschemas, type JsonSchema } from './json-schema.ts'

/** Control sequences: colors and cursor movements of a terminal (ECMA-48, section 5.4). */
// oxlint-disable-next-line eslint/no-control-regex -- the expression finds control characters
const TERMINAL_SEQUENCE = /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]/g
const NOT_SHOWN = /[^\P{C}\n\t]/gu
/** They join and separate the letters of some scripts. */
const JOINERS: ReadonlySet<string> = new Set(['\u200C', '\u200D'])

/**
 * Removes characters that a model reads and a person does not see: control characters, tag characters, directions of
 * writing and colors of a terminal. A description could hide instructions in them. Also removes halves of surrogate pairs.
 */
export function legible(text: string): string {
  return text
    .replaceAll(TERMINAL_SEQUENCE, '')
    .replaceAll(NOT_SHOWN, (char) => (JOINERS.has(char) ? char : ''))
}

/** Returns a schema with legible titles and descriptions. Names and values stay: they are compared. */
export function legibleSchema(schema: JsonSchema): JsonSchema {
  return mapSchemas(schema, (one) => {
    const { title, description } = one
    return {
      ...one,
      ...(typeof title === 'string' && { title: legible(title) }),
      ...(typeof description === 'string' && { description: legible(description) }),
    }
  })
}

/** Returns the schema with each of its own schemas replaced, from the inside out. Other values stay. */
export function mapSchemas(
  schema: JsonSchema,
  replace: (schema: JsonSchema) => JsonSchema,
): JsonSchema {
  return replace(
    mapSubschemas(schema, (inner) => (isRecord(inner) ? mapSchemas(inner, replace) : inner)),
  )
}

import type { JsonSchema } from '../catalogue/tool-source.ts'
import { commonProjection } from './common-projection.ts'
import { googleProjection } from './google-projection.ts'

/**
 * What of a tool's schema the model is shown. Arguments are checked against the whole schema whatever is shown.
 *
 * - `common`: everything that is left when what OpenAI or Anthropic refuse for the root of a schema is
 *   folded (`$ref`, `allOf`, `anyOf`, `oneOf`, `not`, `enum`), and older spellings are brought to 2020-12.
 *   A schema that has none of it stays as it is.
 * - `openai`: the same. `anthropic`: the same, without arguments whose names it refuses.
 * - `google`: the part of OpenAPI 3.0 that Gemini reads: references inlined, recursion cut, no conditions.
 * - `none`: the server's schema as it is.
 * - a function: the schema it returns; `note` takes what of the schema the model does not see.
 */
export type SchemaProjection =
  | 'common'
  | 'openai'
  | 'anthropic'
  | 'google'
  | 'none'
  | SchemaProjector

/** Makes of a server's schema what the model is shown; `note` takes one line for each thing that is left out. */
export type SchemaProjector = (schema: JsonSchema, note: (text: string) => void) => JsonSchema

export interface ProjectedSchema {
  readonly schema: JsonSchema
  /** What the model does not see of the schema, one line each. It is checked at the call all the same. */
  readonly notes: readonly string[]
}

/** A long list of notes is read by no one. */
const MAX_NOTES = 20

/** Names of arguments that Anthropic takes. */
const ANTHROPIC_NAME = /^[a-zA-Z0-9_.-]{1,64}$/

export function projectedSchema(schema: JsonSchema, projection: SchemaProjection): ProjectedSchema {
  const notes: string[] = []
  let more = 0
  const note = (text: string): void => {
    if (notes.includes(text)) return
    if (notes.length < MAX_NOTES) notes.push(text)
    else more++
  }
  const shown = projectorOf(projection)(schema, note)
  return { schema: shown, notes: more > 0 ? [...notes, `and ${more} more`] : notes }
}

function projectorOf(projection: SchemaProjection): SchemaProjector {
  if (typeof projection === 'function') return projection
  switch (projection) {
    case 'none':
      return (schema) => schema
    case 'common':
    case 'openai':
      return (schema, note) => commonProjection(schema, { note })
    case 'anthropic':
      return (schema, note) => commonProjection(schema, { note, argumentNames: ANTHROPIC_NAME })
    case 'google':
      return googleProjection
  }
}

import type { Assistant, Client } from '@langchain/langgraph-sdk'
import { isRecord } from '@x/internal'
import type { JsonSchema } from '../agent.ts'

/** Entries of one page of a list. */
export const PAGE = 100
/** Most pages that are read. */
const MAX_PAGES = 10

/** Lists the assistants of a server, page by page. */
export async function listAssistants(
  client: Client,
  signal: AbortSignal,
): Promise<readonly Assistant[]> {
  const all: Assistant[] = []
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const some = await client.assistants.search({ limit: PAGE, offset: page * PAGE, signal })
    all.push(...some)
    if (some.length < PAGE) break
  }
  return all
}

export function versionOf({ version, updated_at: updatedAt }: Assistant): string {
  return `${version} ${updatedAt}`
}

export function inputSchemaOf(schema: unknown): JsonSchema | undefined {
  if (!isRecord(schema) || !isRecord(schema['properties'])) return undefined
  const names = Object.keys(schema['properties'])
  return names.length === 0 || names.includes('messages') ? undefined : schema
}

/** Returns the context schema of an assistant. `undefined` if it has no fields. */
export function contextSchemaOf(schema: unknown): JsonSchema | undefined {
  if (!isRecord(schema) || !isRecord(schema['properties'])) return undefined
  return Object.keys(schema['properties']).length === 0 ? undefined : schema
}

/** Returns the fields without which a context is not complete. Servers also name fields with a default. */
export function requiredIn({ properties, required }: JsonSchema = {}): readonly string[] {
  const fields = isRecord(properties) ? properties : {}
  return (Array.isArray(required) ? required : []).filter((name) => {
    const field: unknown = fields[name]
    return typeof name === 'string' && !(isRecord(field) && 'default' in field)
  })
}

/** Returns the fields of the context that the server gives to all runs of an assistant. */
export function givenBy({ config, context }: Assistant): Readonly<Record<string, unknown>> {
  const own: unknown = context
  return { ...config?.configurable, ...(isRecord(own) && own) }
}

import { isMcpResource } from '@x/langchain-mcp'
import type { AgentDefinition } from '@x/langchain-mcp'
import { McpClient } from '@x/mcp-client'
import { lineFrom, UserError } from '../user-error.ts'

/** The tools that the scripted model calls, by the slug of their server. */
const SCRIPT: Readonly<Record<string, readonly string[]>> = {
  shop: ['counter_add'],
  everything: ['echo'],
  calculator: ['add'],
}

export interface PreflightOptions {
  readonly agentFile: string
  readonly definition: AgentDefinition
  readonly serversFile: string | undefined
  /** Servers of the user's own, by slug. */
  readonly servers: Readonly<Record<string, string>>
}

/**
 * Looks at what the user brought, before the story starts: each slug must be known, each server of their
 * own must answer, and offer what the script calls.
 *
 * @throws UserError that names the file, field or URL, and what to do.
 */
export async function preflight(options: PreflightOptions): Promise<void> {
  const { agentFile, definition, serversFile, servers } = options
  const resources = (definition.resources ?? []).filter(isMcpResource)
  const enabled = resources.filter(({ isEnabled }) => isEnabled !== false)
  const known = new Set([...Object.keys(SCRIPT), ...Object.keys(servers)])
  for (const { slug, name } of enabled) {
    const wanted = slug ?? name
    if (known.has(wanted)) continue
    const where = serversFile ?? 'a file given with --servers'
    throw new UserError(
      `${agentFile}: no server is known by the slug "${wanted}" (known: ${[...known].join(', ')}): correct it, or say where it is in ${where}`,
    )
  }
  for (const [slug, tools] of Object.entries(SCRIPT)) {
    const resource = enabled.find((candidate) => candidate.slug === slug)
    const missing = tools.find(
      (tool) => !resource?.availableTools?.some(({ name }) => name === tool),
    )
    if (missing === undefined) continue
    throw new UserError(
      `${agentFile}: the story calls the tool "${missing}" of the server "${slug}", which no enabled resource has: add it, as in the sample's agent.json`,
    )
  }
  for (const [slug, url] of Object.entries(servers)) await reach(slug, url)
}

async function reach(slug: string, url: string): Promise<void> {
  await using client = new McpClient({ url }, { timeoutMs: 15_000 })
  const tools = await client.listTools().catch((error: unknown) => {
    const message = `Server "${slug}" cannot be used: ${lineFrom(error)} (start it, or correct its URL)`
    throw new UserError(message, { cause: error })
  })
  const missing = SCRIPT[slug]?.find((wanted) => !tools.some(({ name }) => name === wanted))
  if (missing !== undefined) {
    throw new UserError(
      `Server "${slug}" at ${url} has no tool "${missing}", which the story calls`,
    )
  }
}

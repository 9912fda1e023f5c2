import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord } from '@x/internal'
import { agentDefinitionFrom, isMcpResource } from '@x/langchain-mcp'
import { McpClient } from '@x/mcp-client'
import { startRecordingProxy } from '@x/mcp-testing'
import { HOSTED_SERVERS } from '../host/hosted-servers.ts'
import type { HostedServer } from '../host/hosted-servers.ts'
import { lineFrom, UserError } from '../user-error.ts'

/** Servers of the sample, and the tools of them that the demo calls. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  basket: ['basket_add', 'basket_show', 'basket_checkout'],
  everything: ['echo', 'trigger-long-running-operation'],
  memory: ['create_entities', 'read_graph'],
  gateway: ['write_report'],
}
const MCP_JSON = new URL('../../mcp.json', import.meta.url)

export interface InputFiles {
  readonly agent: string | undefined
  readonly servers: string | undefined
  /** For files that are made of them. */
  readonly folder: string
}

export interface Inputs {
  readonly servers: readonly HostedServer[]
  /** Variables of the agent process. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * Reads and checks what the user gives: each server must be known, must answer, and must have the tools that the
 * demo calls.
 *
 * @throws UserError that names the file, the field or the URL, and says what to do
 */
export async function readInputs({ agent, servers, folder }: InputFiles): Promise<Inputs> {
  const urls = servers === undefined ? {} : serversFrom(await readJsonFile(servers), servers)
  const env: Record<string, string> = {}
  if (agent !== undefined) {
    await checkAgent(agent, { known: [...Object.keys(TOOLS), ...Object.keys(urls)], servers })
    env['AGENT_FILE'] = agent
  }
  for (const [slug, url] of Object.entries(urls)) await reach(slug, url)
  const others = Object.entries(urls).filter(
    ([slug]) => !HOSTED_SERVERS.some(({ name }) => name === slug),
  )
  if (others.length > 0) {
    const { mcpServers } = JSON.parse(await readFile(MCP_JSON, 'utf8'))
    const added = Object.fromEntries(others.map(([slug, url]) => [slug, { url }]))
    env['MCP_FILE'] = join(folder, 'mcp.json')
    await writeFile(env['MCP_FILE'], JSON.stringify({ mcpServers: { ...mcpServers, ...added } }))
  }
  return {
    env,
    servers: HOSTED_SERVERS.map((hosted) => {
      const url = urls[hosted.name]
      return url === undefined ? hosted : ownServer(hosted.name, url)
    }),
  }
}

/**
 * Reads where servers are: `{ "slug": "http://host/mcp" }`, or the `mcpServers` file of desktop clients.
 *
 * @throws UserError that names the source and the field
 */
export function serversFrom(value: unknown, source: string): Record<string, string> {
  const map = isRecord(value) && 'mcpServers' in value ? value['mcpServers'] : value
  if (!isRecord(map)) throw new UserError(`${source}: must be an object of server name → URL`)
  return Object.fromEntries(
    Object.entries(map).map(([slug, entry]) => {
      const url = isRecord(entry) ? entry['url'] : entry
      if (typeof url !== 'string' || !URL.canParse(url) || new URL(url).protocol !== 'http:') {
        throw new UserError(
          `${source}: ${slug}: must be an http: URL, like "http://127.0.0.1:3000/mcp"`,
        )
      }
      return [slug, url]
    }),
  )
}

async function readJsonFile(path: string): Promise<unknown> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new UserError(`${path}: cannot be read (does the file exist?)`, { cause })
  }
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new UserError(`${path}: is not JSON: ${lineFrom(cause)}`, { cause })
  }
}

async function checkAgent(
  file: string,
  { known, servers }: { readonly known: readonly string[]; readonly servers: string | undefined },
): Promise<void> {
  const definition = agentDefinitionFrom(await readJsonFile(file), { source: file })
  const resources = (definition.resources ?? []).filter(isMcpResource)
  const enabled = resources.filter(({ isEnabled }) => isEnabled !== false)
  for (const { slug, name } of enabled) {
    const wanted = slug ?? name
    if (known.includes(wanted)) continue
    const where = servers ?? 'a file given with --servers'
    throw new UserError(
      `${file}: no server is known by the slug "${wanted}" (known: ${known.join(', ')}): correct it, or say where it is in ${where}`,
    )
  }
  for (const [slug, tools] of Object.entries(TOOLS)) {
    const resource = enabled.find((candidate) => candidate.slug === slug)
    const missing = tools.find(
      (tool) => !resource?.availableTools?.some(({ name }) => name === tool),
    )
    if (missing === undefined) continue
    throw new UserError(
      `${file}: the demo calls the tool "${missing}" of the server "${slug}", which no enabled resource has: add it, as in the agent.json of the sample`,
    )
  }
}

async function reach(slug: string, url: string): Promise<void> {
  await using client = new McpClient({ url }, { timeoutMs: 15_000 })
  const tools = await client.listTools().catch((error: unknown) => {
    const message = `Server "${slug}" cannot be used: ${lineFrom(error)} (start it, or correct its URL)`
    throw new UserError(message, { cause: error })
  })
  const missing = TOOLS[slug]?.find((wanted) => !tools.some(({ name }) => name === wanted))
  if (missing !== undefined) {
    throw new UserError(`Server "${slug}" at ${url} has no tool "${missing}", which the demo calls`)
  }
}

/** A server of the user. It cannot be made to forget its sessions: a proxy says so in its place. */
function ownServer(name: string, url: string): HostedServer {
  return {
    name,
    title: `Your server at ${new URL(url).origin}`,
    troubles: ['forget-sessions', 'cut-connections'],
    async start() {
      const proxy = await startRecordingProxy(url, { keepExchanges: 1000 })
      const forgotten = new Set<string>()
      const error = { code: -32_001, message: 'Session not found' }
      proxy.inject({
        match: ({ sessionId }) => sessionId !== undefined && forgotten.has(sessionId),
        action: { status: 404, body: JSON.stringify({ jsonrpc: '2.0', id: null, error }) },
      })
      return {
        url: proxy.url,
        revision: () => 'unknown',
        forgetSessions() {
          for (const { assignedSessionId: id } of proxy.exchanges) {
            if (id !== undefined) forgotten.add(id)
          }
        },
        [Symbol.asyncDispose]: () => proxy.stop(),
      }
    },
  }
}

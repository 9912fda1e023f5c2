import { skillEntry } from '@modelcontextprotocol/server/ext/skills'
import type { Skill } from '@modelcontextprotocol/server/ext/skills'
import { discoverResult, ScriptedServer } from './scripted-server.ts'
import type { ScriptRequest } from './scripted-server.ts'
import type { ScriptedAnswer } from './scripted-answer.ts'

/** Files of a skill, by their path in its folder, such as `SKILL.md`. */
type SkillFiles = Readonly<Record<string, string | Uint8Array>>

/**
 * Starts a {@link SkillServer} on a free port of 127.0.0.1. `skills` has the files of each skill by its path below
 * `skill://`; the last segment is its name.
 *
 * @example
 * ```ts
 * import { startSkillServer } from '@x/mcp-testing'
 *
 * const manifest = '---\nname: refund\ndescription: Refunds an order\n---\nAsk for the order.\n'
 * await using server = await startSkillServer({ 'shop/refund': { 'SKILL.md': manifest } })
 * console.log(server.url, server.reads) // skill://shop/refund/SKILL.md is not read yet
 * ```
 */
export async function startSkillServer(
  skills: Readonly<Record<string, SkillFiles>>,
): Promise<SkillServer> {
  const server = new SkillServer()
  for (const [path, files] of Object.entries(skills)) await server.publish(path, files)
  await server.start()
  return server
}

/** A stateless server with skills (SEP-2640). Tests change what it says, so that it is not true any more. */
export class SkillServer extends ScriptedServer {
  /** Entries of `skills/list`. */
  listed: unknown[] = []
  /** Entries of `skills/get`, by URI. */
  readonly entries: Map<string, unknown> = new Map()
  /** Contents of files, by URI. */
  readonly contents: Map<string, string | Uint8Array> = new Map()
  /** Entries on a page of `skills/list`. */
  pageSize: number = Infinity

  constructor() {
    const extensions = { 'io.modelcontextprotocol/skills': { directoryRead: true } }
    const capabilities = { resources: {}, extensions }
    super({
      'server/discover': { result: { ...discoverResult, capabilities } },
      'skills/list': (request) => this.#list(request),
      'skills/get': (request) => this.#get(request),
      'resources/read': (request) => this.#read(request),
      'resources/directory/read': (request) => this.#readDirectory(request),
    })
  }

  /** Serves a skill from now on, with a true entry. Returns the entry. */
  async publish(path: string, files: SkillFiles): Promise<Skill> {
    const entry = await skillEntry(path, files)
    const { uri } = entry
    this.listed = [...this.listed.filter((one) => one !== this.entries.get(uri)), entry]
    this.entries.set(uri, entry)
    for (const [name, content] of Object.entries(files)) {
      this.contents.set(new URL(name, uri).href, content)
    }
    return entry
  }

  /** URIs of `resources/read`, in the order of the requests. */
  get reads(): readonly string[] {
    return this.received
      .filter(({ rpcMethod }) => rpcMethod === 'resources/read')
      .map(({ params }) => String(params?.['uri']))
  }

  #list({ message }: ScriptRequest): ScriptedAnswer {
    const start = Number(message.params?.['cursor'] ?? 0)
    const end = start + this.pageSize
    const nextCursor = end < this.listed.length ? String(end) : undefined
    return { result: { skills: this.listed.slice(start, end), nextCursor, ...UNCACHED } }
  }

  #get({ message }: ScriptRequest): ScriptedAnswer {
    const skill = this.entries.get(String(message.params?.['uri']))
    return skill === undefined ? UNKNOWN : { result: { skill, ...UNCACHED } }
  }

  #read({ message }: ScriptRequest): ScriptedAnswer {
    const uri = String(message.params?.['uri'])
    const content = this.contents.get(uri)
    if (content === undefined) return UNKNOWN
    const shown =
      typeof content === 'string'
        ? { text: content }
        : { blob: Buffer.from(content).toString('base64') }
    return { result: { contents: [{ uri, ...shown }], ...UNCACHED } }
  }

  #readDirectory({ message }: ScriptRequest): ScriptedAnswer {
    const folder = `${String(message.params?.['uri'])}/`
    const inside = [...this.contents.keys()].filter((uri) => uri.startsWith(folder))
    if (inside.length === 0) return UNKNOWN
    const files = inside.filter((uri) => !uri.slice(folder.length).includes('/'))
    const resources = files.map((uri) => ({ uri, name: uri.slice(folder.length) }))
    return { result: { resources, ...UNCACHED } }
  }
}

const UNCACHED = { ttlMs: 0, cacheScope: 'private' } as const
const UNKNOWN: ScriptedAnswer = { error: { code: -32602, message: 'Unknown URI' } }

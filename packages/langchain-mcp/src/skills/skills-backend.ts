import { createHash } from 'node:crypto'
import { BoundedMap, legible } from '@x/internal'
import type { Skill } from '@x/mcp-client/skills'
import { assertOptions } from '../options.ts'
import {
  linesAtOnce,
  partOf,
  pathsOf,
  skillOptionChecks,
  SkillLibrary,
  SkillRefused,
  textOf,
  type McpSkillsOptions,
  type SkillServers,
  originOf,
  MANIFEST,
} from './skill-library.ts'

// Shapes of `BackendProtocolV2` of `deepagents`, which this package does not depend on.

interface Failed {
  error: string
}

interface DownloadedFile {
  path: string
  content: Uint8Array | null
  error: 'file_not_found' | 'permission_denied' | null
}

/**
 * Offers the skills of MCP servers to `createDeepAgent()` as a backend: one folder for each server, with a folder for each
 * skill. The list of skills needs no file: deep agents read a `SKILL.md` that is made of its name and description. A file
 * itself is read, and checked, when the model reads it. Names of skills begin with their server, so that no skill hides
 * that of another server. Fields such as `allowed-tools` and `module` have no effect.
 *
 * @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { mcpSkillsBackend } from '@x/langchain-mcp/skills'
 * import { CompositeBackend, createDeepAgent, StateBackend } from 'deepagents'
 *
 * const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const agent = createDeepAgent({
 *   model: 'anthropic:claude-sonnet-4-5',
 *   backend: new CompositeBackend(new StateBackend(), { '/mcp/': mcpSkillsBackend(mcp) }),
 *   skills: ['/mcp/shop/'],
 * })
 * ```
 */
export function mcpSkillsBackend(
  mcp: SkillServers,
  options: McpSkillsOptions = {},
): McpSkillsBackend {
  assertOptions('mcpSkillsBackend()', { mcp, ...options }, skillOptionChecks)
  return new McpSkillsBackend(new SkillLibrary(mcp, options))
}

/** Number of entries that are kept, of all users. */
const MAX_ENTRIES = 5000
const TOO_LONG = 'The line is too long to be shown.'
const READ_ONLY: Failed = { error: 'Skills of MCP servers cannot be changed.' }
const NEVER = new Date(0).toISOString()

/** A path in the backend: `/<server>/<folder of a skill>/<path in the skill>`. */
interface Place {
  readonly server: string
  readonly folder: string
  readonly path: string
}

/** A read-only `BackendProtocolV2` of `deepagents`. */
export class McpSkillsBackend {
  readonly #library: SkillLibrary
  /** Listed skills, by their user, server and folder. */
  readonly #listed = new BoundedMap<string, Skill>(MAX_ENTRIES)
  /** Entries of skills that were loaded, by the same. */
  readonly #held = new BoundedMap<string, Skill>(MAX_ENTRIES)

  constructor(library: SkillLibrary) {
    this.#library = library
  }

  /** Lists servers, skills, or all files of a skill. */
  async ls(path: string): Promise<{ files: { path: string; is_dir: boolean }[] }> {
    const { server, folder } = this.#placeOf(path)
    if (server === '') {
      const folders = this.#library.servers.map((name) => encodeURIComponent(name))
      return { files: folders.map((name) => ({ path: `/${name}/`, is_dir: true })) }
    }
    const root = `/${encodeURIComponent(server)}`
    if (folder === '') {
      const folders = await this.#list(server)
      return { files: folders.map((name) => ({ path: `${root}/${name}/`, is_dir: true })) }
    }
    const skill = await this.#listedAt({ server, folder })
    const paths = skill === undefined ? [] : [MANIFEST, ...pathsOf(skill)]
    return { files: paths.map((one) => ({ path: `${root}/${folder}/${one}`, is_dir: false })) }
  }

  /** @param offset number of lines to leave out. @param limit number of lines */
  async read(
    path: string,
    offset = 0,
    limit = 500,
  ): Promise<
    { content: string; mimeType: string; totalLines: number; nextOffset?: number } | Failed
  > {
    return this.#readText(path, (text) => {
      const lines = text.split('\n')
      const asked = lines.slice(offset, offset + limit)
      const end = offset + linesAtOnce(asked)
      const content = partOf(lines.slice(offset, end).join('\n'), 0, () => TOO_LONG)
      const page = { startLine: offset + 1, endLine: Math.min(end, lines.length) }
      const rest = end < lines.length ? { nextOffset: end } : {}
      return { content, mimeType: 'text/plain', totalLines: lines.length, ...page, ...rest }
    })
  }

  readRaw(
    path: string,
  ): Promise<
    | { data: { content: string; mimeType: string; created_at: string; modified_at: string } }
    | Failed
  > {
    const times = { created_at: NEVER, modified_at: NEVER }
    return this.#readText(path, (text) => {
      const content = partOf(text, 0, () => 'Read the file by lines.')
      return { data: { content, mimeType: 'text/plain', ...times } }
    })
  }

  /** Deep agents read each SKILL.md for their list. That must read no file of a server. */
  downloadFiles(paths: string[]): Promise<DownloadedFile[]> {
    return Promise.all(
      paths.map(async (path) => {
        const place = this.#placeOf(path)
        if (place.path !== MANIFEST) return { path, content: null, error: 'permission_denied' }
        const skill = await this.#listedAt(place)
        if (skill === undefined) return { path, content: null, error: 'file_not_found' }
        return { path, content: Buffer.from(stubOf(skill, place.folder)), error: null }
      }),
    )
  }

  write(): Failed {
    return READ_ONLY
  }

  edit(): Failed {
    return READ_ONLY
  }

  /** To search, all files would have to be read. */
  grep(): { matches: []; truncated: true } {
    return { matches: [], truncated: true }
  }

  glob(): { files: []; truncated: true } {
    return { files: [], truncated: true }
  }

  async #readText<Read>(path: string, use: (text: string) => Read): Promise<Read | Failed> {
    try {
      return use(await this.#textAt(this.#placeOf(path)))
    } catch (error) {
      if (!(error instanceof SkillRefused)) throw error
      return { error: error.message }
    }
  }

  async #textAt(place: Place): Promise<string> {
    const { server, path } = place
    const listed = await this.#listedAt(place)
    if (listed === undefined || path === '') throw new SkillRefused('There is no such file.')
    const key = this.#keyOf(place)
    // To read SKILL.md is to load the skill: its other files are then those of this entry.
    const held = path === MANIFEST ? undefined : this.#held.get(key)
    const skill = held ?? (await this.#library.get(server, listed.uri))
    const file = await this.#library.read({ server, skill }, path)
    this.#held.set(key, skill)
    if (path !== MANIFEST) return textOf(file)
    return `${originOf({ server, skill })}\n\n${textOf(file)}`
  }

  /** Lists the skills of a server. Returns their folders. */
  async #list(server: string): Promise<readonly string[]> {
    if (!this.#library.servers.includes(server)) return []
    const skills = await this.#library.listOf(server)
    const names = skills.map(({ skill }) => skill.frontmatter.name)
    return skills.map(({ skill }) => {
      const isUnique =
        names.indexOf(skill.frontmatter.name) === names.lastIndexOf(skill.frontmatter.name)
      const folder = folderOf(server, skill, isUnique)
      this.#listed.set(this.#keyOf({ server, folder }), skill)
      return folder
    })
  }

  async #listedAt(place: Pick<Place, 'server' | 'folder'>): Promise<Skill | undefined> {
    if (!this.#library.servers.includes(place.server)) return undefined
    const key = this.#keyOf(place)
    // A thread may have been listed by an earlier process.
    if (!this.#listed.has(key)) await this.#list(place.server)
    return this.#listed.get(key)
  }

  #keyOf({ server, folder }: Pick<Place, 'server' | 'folder'>): string {
    return `${this.#library.ownerOf(server)}\n${folder}`
  }

  #placeOf(path: string): Place {
    const [server = '', folder = '', ...rest] = path.replace(/^\//, '').split('/')
    const known = this.#library.servers.find((name) => encodeURIComponent(name) === server)
    return { server: known ?? server, folder, path: rest.join('/') }
  }
}

/**
 * Folder and name of a skill. Deep agents know skills by their names alone, so that the part before the first hyphen is
 * the server's, and no other server's.
 */
function folderOf(server: string, { uri, frontmatter }: Skill, isUnique: boolean): string {
  const letters = server.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  const prefix = letters === server ? server : `${letters}${hashOf(server)}`
  const name = `${prefix}-${frontmatter.name}`
  if (isUnique && name.length <= MAX_NAME) return name
  const hash = hashOf(uri)
  return `${name.slice(0, MAX_NAME - hash.length - 1).replace(/-$/, '')}-${hash}`
}

/** Characters of the name of a skill. */
const MAX_NAME = 64

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

/** The SKILL.md that deep agents list: its name and description, and none of the fields that they act on. */
function stubOf({ frontmatter }: Skill, name: string): string {
  const description = JSON.stringify(legible(frontmatter.description)) // JSON is YAML
  return `---\nname: ${name}\ndescription: ${description}\n---\n`
}

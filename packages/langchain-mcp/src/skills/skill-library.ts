import { check, legible, withoutErrorLink, type Checks } from '@x/internal'
import { McpClientError } from '@x/mcp-client'
import { McpSkills, type Skill, type SkillFile } from '@x/mcp-client/skills'
import type { McpTools } from '../create-mcp-tools.ts'
import { ambientConfig } from '../graph/call-context.ts'
import { processWarnings, type ToolLog } from '../log.ts'
import type { RequestOptions } from '../tool-source.ts'

/** The part of `createMcpTools()` that skills need. */
export type SkillServers = Pick<McpTools, 'server' | 'status'>

/** A skill that is about to be loaded. */
export interface SkillApprovalRequest {
  /** Key of the server in `servers`. */
  readonly server: string
  /** The current entry of the skill: frontmatter, and each file with its digest. Written by the server. */
  readonly skill: Skill
  /** Stands for this skill of this server with exactly these files. Undefined for a `"dynamic"` skill. */
  readonly approvalKey: string | undefined
}

export interface McpSkillsOptions {
  /**
   * Returns the `approvalKey` that a person has approved for this skill: from where you store approvals, or from an
   * `interrupt()`. A skill whose current key is another one is not loaded. @default every skill may be loaded
   */
  readonly approval?:
    | ((request: SkillApprovalRequest) => string | undefined | Promise<string | undefined>)
    | undefined
  /** Also loads skills whose files cannot be checked, and which no approval can name. @default false */
  readonly allowDynamic?: boolean | undefined
  /** Receives skills and servers that are left out. @default warnings of the process */
  readonly log?: ToolLog | undefined
}

export const skillOptionChecks: Checks<McpSkillsOptions & { mcp: SkillServers }> = {
  mcp: check.required({
    ...check.methods('server', 'status'),
    takes: 'what createMcpTools() returns',
  }),
  approval: check.func,
  allowDynamic: check.flag,
  log: check.func,
}

/** A skill of one server. Together, the server and the URI identify it. */
export interface ServedSkill {
  /** Key of the server in `servers`. */
  readonly server: string
  readonly skill: Skill
}

/** A skill cannot be used. The message is written for a model. */
export class SkillRefused extends Error {
  override readonly name = 'SkillRefused'
}

/** A server that does not answer delays each invocation of an agent. */
const LIST_MS = 30_000
/** Characters of one file that a model gets. */
const MAX_CHARACTERS = 100_000

/** The skills of all servers: which may be loaded, and which of their files may be read. */
export class SkillLibrary {
  readonly #mcp: SkillServers
  readonly #options: McpSkillsOptions
  readonly #log: ToolLog
  readonly #skills = new Map<string, McpSkills<RequestOptions>>()

  constructor(mcp: SkillServers, options: McpSkillsOptions) {
    this.#mcp = mcp
    this.#options = options
    this.#log = options.log ?? processWarnings
  }

  /** Keys of the servers. */
  get servers(): readonly string[] {
    return this.#mcp.status().map(({ name }) => name)
  }

  /** Lists the skills of all servers, in their order. A server that gives no list is left out, with a warning. */
  async list(): Promise<readonly ServedSkill[]> {
    const lists = await Promise.all(this.servers.map((server) => this.listOf(server)))
    return lists.flat()
  }

  /** Lists the skills of one server that may be loaded. Reads no file of them. */
  async listOf(server: string): Promise<readonly ServedSkill[]> {
    try {
      const { skills, invalid } = await this.#of(server).list({ timeoutMs: LIST_MS })
      for (const { uri = 'without a URI', reason } of invalid) this.#leftOut(server, uri, reason)
      return skills.flatMap((skill) => {
        const problem = this.#problemOf(skill)
        if (problem === undefined) return [{ server, skill }]
        this.#leftOut(server, skill.uri, problem)
        return []
      })
    } catch (error) {
      this.#leftOut(server, 'all of them', messageOf(error))
      return []
    }
  }

  /**
   * Gets the current entry of a skill, which the next calls of `read()` use, if the skill may be loaded.
   *
   * @throws SkillRefused
   */
  async open(server: string, uri: string): Promise<Skill> {
    const skills = this.#of(server)
    const skill = await refusing(() => skills.get(uri))
    const problem = this.#problemOf(skill)
    if (problem !== undefined) throw new SkillRefused(`The skill was not loaded: ${problem}.`)
    const { approval } = this.#options
    if (approval === undefined) return skill
    const approvalKey = skills.approvalKey(skill)
    const approved = await approval({ server, skill, approvalKey })
    if (approvalKey !== undefined && approved === approvalKey) return skill
    throw new SkillRefused(
      'The skill was not loaded: nobody has approved it with its present files. Do not load it again: tell the user.',
    )
  }

  /**
   * Reads one file of an opened skill, and checks it against the entry.
   *
   * @param path relative to the folder of the skill. @default its SKILL.md
   * @throws SkillRefused
   */
  async read({ server, skill }: ServedSkill, path?: string): Promise<SkillFile> {
    const file = await refusing(() => this.#of(server).read(skill, path))
    const nested = nestedIn(skill, file.uri)
    if (nested === undefined) return file
    throw new SkillRefused(
      `The file belongs to another skill, which has to be loaded first: ${nested}`,
    )
  }

  #of(server: string): McpSkills<RequestOptions> {
    const known = this.#skills.get(server)
    if (known !== undefined) return known
    if (!this.servers.includes(server)) {
      const names = this.servers.map((name) => `"${name}"`).join(', ')
      throw new SkillRefused(`There is no MCP server "${server}". The servers are ${names}.`)
    }
    const skills = new McpSkills(this.#mcp.server(server))
    this.#skills.set(server, skills)
    return skills
  }

  #problemOf({ resources }: Skill): string | undefined {
    if (resources !== 'dynamic' || this.#options.allowDynamic === true) return undefined
    return 'its server does not say which files it has, so they cannot be checked'
  }

  #leftOut(server: string, skill: string, reason: string): void {
    const message = `Skills of MCP server "${server}" are left out (${legible(skill)}): ${legible(withoutErrorLink(reason))}`
    this.#log({ level: 'warning', code: 'SKILL_LEFT_OUT', message, server })
  }

  /** Separates what is kept of a server by the user of the current run, whose skills may differ. */
  ownerOf(server: string): string {
    const principal = this.#mcp.server(server).principalOf(ambientConfig())
    return JSON.stringify([principal ?? null, server])
  }
}

/** Errors of the developer, which no model can correct. */
const FOR_THE_CALLER: ReadonlySet<string> = new Set(['CLOSED', 'CONFIG', 'NO_RUN'])

/** @throws SkillRefused for an error of the server or of the connection; other errors as they are */
async function refusing<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send()
  } catch (cause) {
    const isOfServer = cause instanceof Error && cause.name === 'McpError'
    const isOfClient = McpClientError.is(cause) && !FOR_THE_CALLER.has(cause.code)
    if (!isOfServer && !isOfClient) throw cause
    const hasChanged = isOfClient && cause.code === 'SKILL_UNUSABLE' && cause.outcome === 'executed'
    const advice = hasChanged ? '. Load the skill again: it may have changed.' : ''
    throw new SkillRefused(`${legible(messageOf(cause))}${advice}`, { cause })
  }
}

function messageOf(error: unknown): string {
  return withoutErrorLink(error instanceof Error ? error.message : String(error))
}

/** Returns the SKILL.md of the inner skill that a file of a skill belongs to. */
function nestedIn({ uri: own, resources }: Skill, file: string): string | undefined {
  if (resources === 'dynamic') return undefined
  return resources
    .map(({ uri }) => uri)
    .find((uri) => {
      const isManifest = uri !== own && uri.endsWith('/SKILL.md')
      return isManifest && file.startsWith(uri.slice(0, -'SKILL.md'.length))
    })
}

/** Returns the text of a file as a model gets it. */
export function textOf({ uri, bytes, text, body, mimeType = 'binary' }: SkillFile): string {
  const shown = body ?? text ?? utf8(bytes)
  if (shown === undefined) {
    return `${uri} has ${bytes.byteLength} bytes of another type than text (${legible(mimeType)}), which cannot be shown.`
  }
  if (shown.length <= MAX_CHARACTERS) return legible(shown)
  return `${legible(shown.slice(0, MAX_CHARACTERS))}\n[${shown.length - MAX_CHARACTERS} more characters are not shown]`
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Paths of the files of a skill, relative to its folder, without its SKILL.md. */
export function pathsOf({ uri: own, resources }: Skill): readonly string[] {
  if (resources === 'dynamic') return []
  const folder = own.slice(0, -'SKILL.md'.length)
  return resources
    .map(({ uri }) => uri)
    .filter((uri) => uri !== own && uri.startsWith(folder))
    .map((uri) => uri.slice(folder.length))
}

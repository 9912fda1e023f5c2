import { BoundedMap, check, legible, withoutErrorLink, type Checks } from '@x/internal'
import { currentRun, McpClientError, runInSessionScope } from '@x/mcp-client'
import { McpSkills, type Skill, type SkillFile, type SkillList } from '@x/mcp-client/skills'
import type { McpTools } from '../create-mcp-tools.ts'
import type { StatelessRequestOptions } from '../definitions/live-server.ts'
import { MAX_REMOTE_LISTS } from '../definitions/server-clients.ts'
import { isErrorOfUser } from '../definitions/user-tokens.ts'
import { ambientConfig } from '../graph/call-context.ts'
import { logOnce, processWarnings, type ToolLog } from '../log.ts'
import { mapBounded } from '../map-bounded.ts'
import { startOf } from '../tools/well-formed.ts'

/** The part of `createMcpTools()` that skills need. */
export type SkillServers = Pick<McpTools, 'server' | 'status'>

/** A skill of which a file is about to be read. */
export interface SkillApprovalRequest {
  /** Key of the server in `servers`. */
  readonly server: string
  /** The entry that the file must fit: frontmatter, and each file with its digest. Written by the server. */
  readonly skill: Skill
  /** Stands for this skill of this server with exactly these files. Undefined for a `"dynamic"` skill. */
  readonly approvalKey: string | undefined
}

export interface McpSkillsOptions {
  /**
   * Returns the `approvalKey` that a person has approved for this skill: from where you store approvals, or from an
   * `interrupt()`. It is called before each file is read. A skill whose key is another one is not read.
   * @default every skill may be read
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

/** Time limit of a list, for which an invocation of an agent waits. */
const LIST_MS = 30_000
/** Time after a failed list in which the server is not asked again. It would delay each invocation of an agent. */
const RETRY_AFTER_MS = 30_000
/** Number of failed lists that are remembered, of all users. */
const MAX_FAILURES = 1000
/** File of a skill that has its name and its instructions. */
export const MANIFEST = 'SKILL.md'
/** Characters of one file that a model gets at once. */
const MAX_CHARACTERS = 100_000
/** Characters of a text of a server in the log. */
const MAX_LOGGED = 500

/** The skills of all servers: which may be loaded, and which of their files may be read. */
export class SkillLibrary {
  readonly #mcp: SkillServers
  readonly #options: McpSkillsOptions
  readonly #log: ToolLog
  readonly #skills = new Map<string, McpSkills<StatelessRequestOptions>>()
  /** Times of failed lists, by user and server. */
  readonly #failures = new BoundedMap<string, number>(MAX_FAILURES)

  constructor(mcp: SkillServers, options: McpSkillsOptions) {
    this.#mcp = mcp
    this.#options = options
    this.#log = logOnce(options.log ?? processWarnings)
  }

  /** Keys of the servers. */
  get servers(): readonly string[] {
    return this.#mcp.status().map(({ name }) => name)
  }

  /**
   * Lists the skills of all servers, in their order. A server that gives no list is left out, with a warning.
   *
   * @throws the error of the credentials of `userTokens()`
   * @throws {McpClientError} `CONFIG` if `principal` throws or returns no name
   */
  async list(): Promise<readonly ServedSkill[]> {
    const lists = await mapBounded(this.servers, MAX_REMOTE_LISTS, (server) => this.listOf(server))
    return lists.flat()
  }

  /** Lists the skills of one server that may be loaded. Reads no file of them. */
  async listOf(server: string): Promise<readonly ServedSkill[]> {
    const signal = ambientConfig()?.signal
    const owner = this.ownerOf(server) // outside the `try`: an error of `principal` does not count against the server
    try {
      return await this.#servedUnlessDown(server, owner, signal)
    } catch (error) {
      if (signal?.aborted === true || isErrorOfUser(error)) throw error
      this.#leftOut(server, 'all of them', messageOf(error))
      return []
    }
  }

  async #servedUnlessDown(
    server: string,
    owner: string,
    signal: AbortSignal | undefined,
  ): Promise<readonly ServedSkill[]> {
    const failedAt = this.#failures.get(owner) ?? -Infinity
    if (performance.now() - failedAt < RETRY_AFTER_MS) return []
    this.#failures.delete(owner)
    try {
      return await this.#served(server, signal)
    } catch (error) {
      // A person may have signed in before the next list.
      const isSignIn =
        isErrorOfUser(error) || (McpClientError.is(error) && error.code === 'UNAUTHORIZED')
      if (!isSignIn && signal?.aborted !== true) this.#failures.set(owner, performance.now())
      throw error
    }
  }

  async #served(server: string, signal: AbortSignal | undefined): Promise<readonly ServedSkill[]> {
    const limits = { timeoutMs: LIST_MS, signal, withoutThread: true }
    const list = (): Promise<SkillList> => this.#of(server).list(limits)
    const { skills, invalid } = await (currentRun() === undefined
      ? runInSessionScope(list)
      : list())
    const problems = skills.flatMap((skill) => {
      const reason = this.#problemOf(skill)
      return reason === undefined ? [] : [{ uri: skill.uri, reason }]
    })
    const [first, ...others] = [...invalid, ...problems]
    if (first !== undefined) {
      const { uri = 'without a URI', reason } = first
      const which = others.length === 0 ? uri : `${others.length + 1} entries, such as ${uri}`
      this.#leftOut(server, which, reason)
    }
    return skills
      .filter((skill) => this.#problemOf(skill) === undefined)
      .map((skill) => ({ server, skill }))
  }

  /**
   * Gets the current entry of a skill.
   *
   * @throws SkillRefused
   */
  async get(server: string, uri: string): Promise<Skill> {
    const skills = this.#of(server)
    return refusing(() => skills.get(uri, { signal: ambientConfig()?.signal }))
  }

  /**
   * Reads one file of a skill, if the skill may be loaded and is approved now. Checks the file against the entry, which
   * may be of an earlier call.
   *
   * @param path relative to the folder of the skill. @default its SKILL.md
   * @throws SkillRefused
   */
  async read({ server, skill }: ServedSkill, path?: string): Promise<SkillFile> {
    const skills = this.#of(server)
    await this.#assertApproved(skills, skill)
    const signal = ambientConfig()?.signal
    const file = await refusing(() => skills.read(skill, path, { signal }))
    const nested = nestedIn(skill, file.uri)
    if (nested === undefined) return file
    throw new SkillRefused(
      `The file belongs to another skill, which has to be loaded first: ${nested}`,
    )
  }

  /** @throws SkillRefused */
  async #assertApproved(skills: McpSkills<StatelessRequestOptions>, skill: Skill): Promise<void> {
    const problem = this.#problemOf(skill)
    if (problem !== undefined) throw new SkillRefused(`The skill was not loaded: ${problem}.`)
    const { approval } = this.#options
    if (approval === undefined) return
    const { server } = skills
    const approvalKey = skills.approvalKey(skill)
    const approved = await approval({ server, skill, approvalKey })
    if (approvalKey !== undefined && approved === approvalKey) return
    throw new SkillRefused(
      'The skill was not loaded: nobody has approved it with its present files. Do not load it again: tell the user.',
    )
  }

  #of(server: string): McpSkills<StatelessRequestOptions> {
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
    const message = `Skills of MCP server "${server}" are left out (${logged(skill)}): ${logged(withoutErrorLink(reason))}`
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

/** Returns a text of a server for the log. */
function logged(text: string): string {
  return legible(text.slice(0, MAX_LOGGED).toWellFormed())
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
      const isManifest = uri !== own && uri.endsWith(`/${MANIFEST}`)
      return isManifest && file.startsWith(uri.slice(0, -MANIFEST.length))
    })
}

/** Returns the line before the instructions of a skill: a model has to see whose they are. */
export function originOf({ server, skill }: ServedSkill): string {
  return `Instructions of MCP server ${JSON.stringify(server)}, skill ${JSON.stringify(skill.uri)}:`
}

/** Returns the text of a file without invisible characters. */
export function textOf({ uri, bytes, text, body, mimeType = 'binary' }: SkillFile): string {
  const shown = body ?? text ?? utf8(bytes)
  if (shown !== undefined) return legible(shown)
  return `${uri} has ${bytes.byteLength} bytes of another type than text (${legible(mimeType)}), which cannot be shown.`
}

/** Returns a part of a text as a model gets it. `more` tells how to read on. */
export function partOf(text: string, offset: number, more: (next: number) => string): string {
  const part = startOf(text.slice(offset), MAX_CHARACTERS)
  const next = offset + part.length
  const shown = part.toWellFormed() // a model may choose an offset within a character
  return next >= text.length
    ? shown
    : `${shown}\n[${text.length - next} more characters. ${more(next)}]`
}

/** Returns the number of lines, from the first one, that a model gets at once: at least one. */
export function linesAtOnce(lines: readonly string[]): number {
  let characters = 0
  const tooMany = lines.findIndex((line) => (characters += line.length + 1) > MAX_CHARACTERS)
  return tooMany === -1 ? lines.length : Math.max(tooMany, 1)
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
  const folder = own.slice(0, -MANIFEST.length)
  return resources
    .map(({ uri }) => uri)
    .filter((uri) => uri !== own && uri.startsWith(folder))
    .map((uri) => uri.slice(folder.length))
}

// The command `check`: says what a file means, and what is wrong with it, without serving it.
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Writable } from 'node:stream'

import { isRecord, nearestWord, withErrorLink, withoutErrorLink } from '@x/internal'
import { CommandError, toLine } from '@x/internal/command-line'
import { stringify } from 'yaml'
import type { z } from 'zod'

import { GatewayError } from '../errors.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { isSecret, type SettingPath } from '../gateway/setting-paths.ts'
import type { StaticToken } from '../http/auth/bearer.ts'
import { redacted } from '../internal/redacted.ts'
import { ambiguousFolders, readSkills, type Skill } from '../skills/skill-folder.ts'
import { writeProbe } from '../store/blobs.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { patternDefects } from '../tools/filter.ts'
import { listOwnTools, overrideDefects, unusedText, type PlannedTool } from '../tools/plan.ts'
import { tryConfigFile, type ConfigFile, type ReadConfig, type TriedConfig } from './config-file.ts'
import { toOptions, type Attempt, type FileSettings } from './file-settings.ts'
import { failedSources, servingMistakes, withPlace } from './serve.ts'

export interface CheckOptions {
  readonly configFile: ConfigFile
  /** Finds the mistakes that matter when a client is served on standard input and output. */
  readonly stdio: boolean
  /** Prints JSON. */
  readonly json: boolean
  readonly stdout: Writable
}

/**
 * Makes the gateway of a file, asks its sources for agents once, and prints the settings and the tools. It serves no
 * client, and leaves the store of the file alone. A mistake does not end the check: it goes on with the valid parts, so
 * that one run finds all mistakes.
 *
 * @throws CommandError with a line for each mistake
 */
export async function checkFile({ configFile, stdio, json, stdout }: CheckOptions): Promise<void> {
  const tried = await tryConfigFile(configFile)
  const mistakes = [...tried.mistakes]
  if (tried.read) {
    const { report, found } = await checkParts(tried.read, {
      folder: dirname(configFile.file),
      isUnknown: tried.isUnknown,
      stdio,
    })
    mistakes.push(...found)
    if (report && tried.mistakes.length === 0) {
      const shown = withoutSecrets(tried.read.config, tried.read.schema)
      stdout.write(
        json
          ? `${JSON.stringify({ ...report, settings: shown })}\n`
          : [failuresText(report), stringify(shown), reportText(report)].filter(Boolean).join('\n'),
      )
    }
  }
  if (mistakes.length === 0) return
  throw new CommandError(withErrorLink([...new Set(mistakes)].join('\n'), 'CONFIG'))
}

const IN_MEMORY: FileSettings['store'] = { dir: undefined }

interface CheckedParts {
  /** `undefined`: a part could not be made, so the tools are not those of the file. */
  readonly report: Report | undefined
  /** A line for each mistake. */
  readonly found: readonly string[]
}

interface PartsOptions {
  /** Folder of the file. */
  readonly folder: string
  readonly isUnknown: TriedConfig['isUnknown']
  readonly stdio: boolean
}

async function checkParts(
  read: ReadConfig,
  { folder, isUnknown, stdio }: PartsOptions,
): Promise<CheckedParts> {
  const { sections } = read
  const found: string[] = []
  const warnings: string[] = []
  const onWarning = (message: string, cause?: unknown): void => {
    const text = withoutErrorLink(message)
    const reason = cause instanceof Error ? withoutErrorLink(cause.message) : ''
    warnings.push(text.includes(reason) ? text : `${text}: ${reason}`)
  }
  const note = (error: GatewayError): void => {
    const placed = withPlace(error, read)
    found.push(withoutErrorLink(placed instanceof Error ? placed.message : String(placed)))
  }
  const attempt: Attempt = async (make) => {
    try {
      return await make()
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      note(error)
      return undefined
    }
  }
  const config = judgeable(read.config, isUnknown)
  const settings = (await attempt(() => withoutFolder(config, folder, onWarning))) ?? {
    ...config,
    store: IN_MEMORY,
  }
  await using configured = await toOptions(settings, { folder, onWarning, sections, attempt })
  for (const mistake of servingMistakes(config, configured.options, { stdio, onWarning })) {
    const isJudged =
      mistake.path === 'stateKey'
        ? !isUnknown('stateKey', 'store')
        : !isUnknown('auth', 'http.host', 'http.insecure')
    if (isJudged) note(mistake)
  }
  const defects = [...patternDefects(config.tools), ...overrideDefects(config.tools)]
  for (const defect of defects) note(defect)
  const skills = await checkSkills(configured.options.skillFolder, { note, onWarning })
  const isWhole = found.length === 0
  await using store = new MemoryGatewayStore()
  const gateway = await attempt(() =>
    createGateway({
      ...configured.options,
      skillFolder: undefined,
      tools: withoutDefects(config.tools, defects),
      engine: undefined,
      log: false,
      observer: { warned: onWarning },
      store,
    }),
  )
  if (!gateway) return { report: undefined, found }
  await using _ = gateway
  const warnedBefore = warnings.length
  await gateway.registry.start()
  found.push(...failedSources(gateway, configured, read))
  const { sources } = gateway.registry.status()
  const { unusedOverrides, warnings: ofPlan } = gateway.registry.plan()
  // While an agent is away, an override may be meant for it. Sources warn of agents that they cannot reach.
  const isAway =
    configured.options.sources.some(({ isLocal }) => isLocal !== true) &&
    warnings.slice(warnedBefore).some((each) => !ofPlan.includes(each))
  const isComplete =
    !isUnknown('sources', 'tools.overrides') &&
    sources.length === config.sources.length &&
    sources.every(({ state }) => state === 'started')
  const unused = isComplete && !isAway ? unusedOverrides : []
  if (isComplete && !isAway) {
    warnings.push(...unneededScopes(config.auth?.tokens, gateway.registry.plan().tools))
  }
  for (const key of unused) {
    const path = `tools.overrides["${key}"]`
    note(new GatewayError('CONFIG', unusedText(key), { path }))
  }
  return { report: isWhole ? reportOf(gateway, { skills, warnings, unused }) : undefined, found }
}

/** Scopes of tokens that no tool needs, such as one that is misspelt. */
function unneededScopes(
  tokens: Readonly<Record<string, StaticToken>> = {},
  tools: readonly Pick<PlannedTool, 'scopes'>[],
): readonly string[] {
  const needed = tools.flatMap(({ scopes }) => scopes)
  return Object.entries(tokens).flatMap(([name, { scopes = [] }]) =>
    scopes
      .filter((scope) => scope !== '*' && !needed.includes(scope))
      .map((scope) => {
        const nearest = nearestWord(scope, needed)
        const advice = nearest === undefined ? '' : `. Did you mean "${nearest}"?`
        return `No tool needs the scope "${scope}" of the token "${name}"${advice}`
      }),
  )
}

/** Reads the folder of skills. A skill that breaks a rule is a mistake, because no client gets it. */
async function checkSkills(
  folder: string | undefined,
  {
    note,
    onWarning,
  }: Readonly<Record<'onWarning', (text: string) => void>> & {
    readonly note: (error: GatewayError) => void
  },
): Promise<readonly Skill[]> {
  if (folder === undefined) return []
  const refuse = (text: string, cause?: unknown): void =>
    note(new GatewayError('CONFIG', text, { path: 'skillFolder', cause }))
  try {
    const { entries } = await readSkills(folder, refuse)
    for (const text of ambiguousFolders(entries)) onWarning(text)
    return entries
  } catch (cause) {
    refuse(`the folder of skills cannot be read: ${toLine(cause)}`, cause)
    return []
  }
}

/** Leaves out sections that lost a part: their other mistakes may only follow from that. */
function judgeable(config: FileSettings, isUnknown: TriedConfig['isUnknown']): FileSettings {
  return {
    ...config,
    ...(isUnknown('auth', 'http.publicUrl', 'http.path') && {
      auth: undefined,
    }),
    ...(isUnknown('store') && { store: IN_MEMORY }),
  }
}

/** Returns the settings of the tools without those that have a defect: the gateway would refuse them. */
function withoutDefects(
  tools: FileSettings['tools'],
  defects: readonly GatewayError[],
): FileSettings['tools'] {
  const isGood = (path: string): boolean => !defects.some((defect) => defect.path?.startsWith(path))
  return {
    ...tools,
    include: tools.include.filter((_, index) => isGood(`tools.include[${index}]`)),
    exclude: tools.exclude.filter((_, index) => isGood(`tools.exclude[${index}]`)),
    overrides: Object.fromEntries(
      Object.entries(tools.overrides).filter(([key]) => isGood(`tools.overrides["${key}"]`)),
    ),
  }
}

/**
 * Does not open the store on disk: a running gateway may use it. Only writes a small file into its folder, or into the
 * folder in which it will be made, and deletes it.
 *
 * @throws GatewayError `CONFIG` if the folder cannot exist, or cannot be written
 */
async function withoutFolder(
  settings: FileSettings,
  folder: string,
  onWarning: (message: string) => void,
): Promise<FileSettings> {
  const { dir } = settings.store
  if (dir === undefined) return settings
  const refused = (problem: string, cause?: unknown) =>
    new GatewayError('CONFIG', `${dir} ${problem}`, { path: 'store.dir', cause })
  for (let at = resolve(folder, dir); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined)
    if (found?.isDirectory() === false) throw refused(`can be no folder: ${at} is a file`)
    if (found) {
      await writeProbe(at).catch((cause: unknown) => {
        const problem = `cannot be written: ${toLine(cause)}`
        // The gateway may run as the user that the folder belongs to.
        if (!isDenied(cause) || found.uid === process.getuid?.()) throw refused(problem, cause)
        onWarning(`${dir} ${problem}. Check as the user that the gateway will have`)
      })
    }
    if (found || at === dirname(at)) break
  }
  return { ...settings, store: IN_MEMORY }
}

function isDenied(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'EACCES' || code === 'EPERM'
}

/** Returns a copy that may be shown: secrets are left out, and passwords in URLs. */
export function withoutSecrets(value: unknown, schema: z.ZodType, path: SettingPath = []): unknown {
  if (typeof value === 'string') return value.includes('://') ? redacted(value) : value
  if (Array.isArray(value)) {
    return value.map((each, index) => withoutSecrets(each, schema, [...path, index]))
  }
  if (!isRecord(value)) return value
  const shown = Object.entries(value).flatMap(([key, each]) => {
    const own = [...path, key]
    return isSecret(schema, own) ? [] : [[key, withoutSecrets(each, schema, own)]]
  })
  return Object.fromEntries(shown)
}

type Report = ReturnType<typeof reportOf>

/** The tools that a configuration gives, and what is wrong with the others. */
function reportOf(
  { registry }: Gateway,
  {
    skills,
    warnings,
    unused,
  }: Readonly<Record<'warnings' | 'unused', readonly string[]>> & {
    readonly skills: readonly Skill[]
  },
) {
  const plan = registry.plan()
  const { tools, collisions, dropped, warnings: ofPlan } = plan
  const { sources } = registry.status()
  const isMistake = (warning: string): boolean =>
    sources.some(({ name }) => warning.startsWith(`${name} could not be started`)) ||
    unused.some((key) => warning === unusedText(key))
  return {
    tools: tools.map(({ name, agent, skill, definition: { title } }) => {
      return { name, agent: agent.id, skill: skill.id, title }
    }),
    ownTools: listOwnTools(plan, tools).map(({ name, title }) => ({ name, title })),
    skills: skills.map(({ uri, frontmatter: { description } }) => ({ uri, description })),
    collisions,
    dropped: dropped.map(({ agentId: agent, skillId: skill, why, reason }) => {
      return { agent, skill, why, reason }
    }),
    sources,
    warnings: [...new Set([...ofPlan, ...warnings])].filter((each) => !isMistake(each)),
  }
}

/** For people: what must be repaired first. */
function failuresText({ sources }: Report): string {
  const failed = sources.filter(({ state }) => state === 'failed')
  return section(
    'Sources that failed',
    failed.map(({ name, reason }) => `${name}: ${reason ?? 'it gave no reason'}`),
  )
}

/** For people. Sections without a line are left out, except the tools. */
function reportText(report: Report): string {
  const { tools: ofAgents, ownTools, skills, collisions, dropped, warnings } = report
  const tools = [...ofAgents, ...ownTools]
  const width = Math.max(0, ...tools.map(({ name }) => name.length))
  const sections = [
    section(
      tools.length === 1 ? '1 tool' : `${tools.length} tools`,
      tools.map(({ name, title }) => `${name.padEnd(width)}  ${title}`),
      true,
    ),
    section(
      skills.length === 1 ? '1 skill' : `${skills.length} skills`,
      skills.map(({ uri, description }) => `${uri}  ${description}`),
    ),
    section(
      'Names that several tools want',
      collisions.map(({ wanted, skill, others, given }) => {
        return `${wanted}: ${skill} is called ${given}, because of ${others.join(', ') || 'another tool'}`
      }),
    ),
    section(
      'Left out',
      dropped.map(({ agent, skill, reason }) => `${agent}/${skill}: ${reason}`),
    ),
    section('Warnings', warnings),
  ]
  return sections.filter((each) => each !== '').join('\n')
}

function section(title: string, lines: readonly string[], isAlways = false): string {
  if (lines.length === 0 && !isAlways) return ''
  return `${title}\n${lines.map((line) => `  ${indented(line)}\n`).join('')}`
}

/** Keeps the lines of a text, such as of the error of a graph, and moves them in: none of them looks like an entry. */
function indented(text: string): string {
  return text.split(/\r?\n/).map(printable).join('\n      ')
}

/** Removes characters that move the cursor or hide text: agents choose these texts. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
}

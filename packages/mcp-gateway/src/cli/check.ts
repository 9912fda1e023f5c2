// The command `check`: says what a file means, without serving it.
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Writable } from 'node:stream'

import { isRecord } from '@x/internal'
import { toLine } from '@x/internal/command-line'
import { stringify } from 'yaml'
import type { z } from 'zod'

import { GatewayError } from '../errors.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { isSecret, type SettingPath } from '../gateway/setting-paths.ts'
import { redacted } from '../internal/redacted.ts'
import { writeProbe } from '../store/blobs.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { readConfigFile, type ConfigFile } from './config-file.ts'
import { toOptions, type FileSettings } from './file-settings.ts'
import { checkServable, checkSources, withPlace } from './serve.ts'

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
 * client, and leaves the store of the file alone.
 *
 * @throws CommandError, GatewayError `CONFIG`, with the line of the mistake
 */
export async function checkFile({ configFile, stdio, json, stdout }: CheckOptions): Promise<void> {
  const read = await readConfigFile(configFile)
  const { config, schema, sections } = read
  const warnings: string[] = []
  const onWarning = (message: string, cause?: unknown): void => {
    const isComplete = !(cause instanceof Error) || message.includes(cause.message)
    warnings.push(isComplete ? message : `${message}: ${cause.message}`)
  }
  try {
    const folder = dirname(configFile.file)
    const settings = await withoutFolder(config, folder, onWarning)
    await using configured = await toOptions(settings, { folder, onWarning, sections })
    checkServable(config, configured.options, { stdio, onWarning })
    await using store = new MemoryGatewayStore()
    const options = {
      ...configured.options,
      engine: undefined,
      log: false as const,
      observer: { warned: onWarning },
      store,
    }
    await using gateway = createGateway(options)
    await gateway.registry.start()
    const report = reportOf(gateway, warnings)
    const shown = withoutSecrets(config, schema)
    stdout.write(
      json
        ? `${JSON.stringify({ ...report, settings: shown })}\n`
        : [failuresText(report), stringify(shown), reportText(report)].filter(Boolean).join('\n'),
    )
    checkSources(gateway, options.sources, read)
  } catch (error) {
    throw withPlace(error, read)
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
  const { type, dir } = settings.store
  if (type !== 'disk' || dir === undefined) return settings
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
  return { ...settings, store: { ...settings.store, type: 'memory' } }
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
function reportOf({ registry }: Gateway, warnings: readonly string[]) {
  const { tools, collisions, dropped, warnings: ofPlan } = registry.plan()
  const { sources } = registry.status()
  const isOfSource = (warning: string): boolean =>
    sources.some(({ name }) => warning.startsWith(`${name} could not be started`))
  return {
    tools: tools.map(({ name, agent, skill, definition: { title } }) => {
      return { name, agent: agent.id, skill: skill.id, title }
    }),
    collisions,
    dropped: dropped.map(({ agentId: agent, skillId: skill, why, reason }) => {
      return { agent, skill, why, reason }
    }),
    sources,
    warnings: [...new Set([...ofPlan, ...warnings])].filter((each) => !isOfSource(each)),
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
function reportText({ tools, collisions, dropped, warnings }: Report): string {
  const width = Math.max(0, ...tools.map(({ name }) => name.length))
  const sections = [
    section(
      tools.length === 1 ? '1 tool' : `${tools.length} tools`,
      tools.map(({ name, title }) => `${name.padEnd(width)}  ${title}`),
      true,
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

// The commands that look at a file without serving it: `check`, `tools`, `call` and `sessions`.
import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Writable } from 'node:stream'

import { isRecord } from '@x/internal'
import { CommandError, toLine, UsageError } from '@x/internal/command-line'
import { stringify } from 'yaml'

import type { AgentSource } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { errorText } from '../internal/redacted.ts'
import type { GatewayOptions } from '../options.ts'
import { MODERN_REVISION } from '../mcp/revisions.ts'
import { storedSessions, type ListedSession } from '../mcp/sessions.ts'
import { encodeName } from '../mcp/stateless-http.ts'
import type { RunEvent } from '../internal/run-event.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { readConfigFile, type ConfigFile, type ReadConfig } from './config-file.ts'
import { makeStore, toOptions, type FileSettings } from './file-settings.ts'
import { maskedConfig } from './masked-config.ts'
import { checkServable, checkSources, withPlace } from './serve.ts'

interface PlannedGateway extends AsyncDisposable {
  readonly read: ReadConfig
  readonly gateway: Gateway
  readonly sources: readonly AgentSource[]
  readonly warnings: readonly string[]
}

/**
 * Makes the gateway of a file, and asks its sources for agents once. It serves no client, and leaves the store of the
 * file alone.
 *
 * @param over options that win over the file
 * @param isToServe `true`: finds mistakes, too, that only matter when clients are served
 * @throws CommandError, GatewayError `CONFIG`, with the line of the mistake
 */
async function planGateway(
  configFile: ConfigFile,
  { over = {}, isToServe = false }: { over?: Partial<GatewayOptions>; isToServe?: boolean } = {},
): Promise<PlannedGateway> {
  const read = await readConfigFile(configFile)
  const warnings: string[] = []
  const onWarning = (message: string, cause?: unknown): void => {
    const isComplete = !(cause instanceof Error) || message.includes(cause.message)
    warnings.push(isComplete ? message : `${message}: ${cause.message}`)
  }
  try {
    const folder = dirname(configFile.file)
    const settings = await withoutFolder(read.config, folder)
    const { sections } = read
    const configured = await toOptions(settings, { folder, onWarning, sections })
    if (isToServe) checkServable(read.config, configured.options, onWarning)
    const store = new MemoryGatewayStore()
    // Nothing that it signs outlives this command, so a random key needs no warning.
    const secrets = isToServe ? configured.options.secrets : { stateKey: randomBytes(32) }
    const options = { ...configured.options, engine: undefined, logger: false as const, secrets }
    const gateway = createGateway({ ...options, ...over, store })
    await gateway.registry.start()
    return {
      read,
      gateway,
      sources: configured.sources,
      warnings,
      [Symbol.asyncDispose]: async () => {
        await gateway.close()
        await Promise.all([configured[Symbol.asyncDispose](), store.close()])
      },
    }
  } catch (error) {
    throw withPlace(error, read)
  }
}

/**
 * Does not open the folder of a store on disk: a running gateway may use it, or it will belong to another user.
 *
 * @throws GatewayError `CONFIG` if the folder cannot exist
 */
async function withoutFolder(settings: FileSettings, folder: string): Promise<FileSettings> {
  const { type, dir } = settings.store
  if (type !== 'disk' || dir === undefined) return settings
  for (let at = resolve(folder, dir); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined)
    if (found?.isDirectory() === false) {
      throw new GatewayError('CONFIG', `${dir} can be no folder: ${at} is a file`, {
        path: 'store.dir',
      })
    }
    if (found || at === dirname(at)) break
  }
  return { ...settings, store: { ...settings.store, type: 'memory' } }
}

interface ReportOptions {
  readonly json: boolean
  readonly stdout: Writable
}

/** Prints the configuration and the tools of a file. @throws CommandError, GatewayError */
export async function checkFile(file: ConfigFile, { json, stdout }: ReportOptions): Promise<void> {
  await using planned = await planGateway(file, { isToServe: true })
  const report = planReport(planned.gateway, planned.warnings)
  const config = maskedConfig(planned.read.config, planned.read.schema)
  stdout.write(
    json
      ? `${JSON.stringify({ config, ...report })}\n`
      : `${stringify(config)}\n${reportText(report)}`,
  )
  checkSources(planned.gateway, planned.sources, planned.read)
}

/** Prints the tools of a file. @throws CommandError, GatewayError */
export async function listTools(file: ConfigFile, { json, stdout }: ReportOptions): Promise<void> {
  await using planned = await planGateway(file)
  const report = planReport(planned.gateway, planned.warnings)
  stdout.write(json ? `${JSON.stringify(report)}\n` : reportText(report))
  checkSources(planned.gateway, planned.sources, planned.read)
}

type PlanReport = ReturnType<typeof planReport>

/** The tools that a configuration gives, and what is wrong with the others. */
function planReport({ registry }: Gateway, warnings: readonly string[]) {
  const { tools, collisions, dropped, warnings: ofPlan } = registry.plan()
  return {
    tools: tools.map(({ name, agent, skill, title }) => {
      return { name, agent: agent.id, skill: skill.id, title }
    }),
    collisions,
    dropped: dropped.map(({ agentId: agent, skillId: skill, why, reason }) => {
      return { agent, skill, why, reason }
    }),
    sources: registry.status().sources,
    warnings: [...new Set([...ofPlan, ...warnings])],
  }
}

/** For people. Sections without a line are left out, except the tools. */
function reportText({ tools, collisions, dropped, sources, warnings }: PlanReport): string {
  const width = Math.max(0, ...tools.map(({ name }) => name.length))
  const failed = sources.filter(({ state }) => state === 'failed')
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
    section(
      'Sources that failed',
      failed.map(({ name, reason }) => `${name}: ${reason ?? 'it gave no reason'}`),
    ),
    section('Warnings', warnings),
  ]
  return sections.filter((each) => each !== '').join('\n')
}

function section(title: string, lines: readonly string[], isAlways = false): string {
  if (lines.length === 0 && !isAlways) return ''
  return `${title}\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`
}

/** Removes characters that move the cursor or hide text: agents and clients choose these texts. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
}

export interface ToolCall {
  readonly tool: string
  /** Needed if there are no `args`. */
  readonly message: string | undefined
  /** A JSON object. */
  readonly args: string | undefined
}

/** Calls a tool and prints its answer. @throws CommandError, also if the tool failed; GatewayError */
export async function callTool(
  file: ConfigFile,
  { tool, message, args }: ToolCall,
  { json, stdout }: ReportOptions,
): Promise<void> {
  const given = parseArguments(message, args)
  const errors: string[] = []
  const onEvent = (event: RunEvent): void => {
    if (event.type === 'failed') errors.push(errorText(event.error))
  }
  await using planned = await planGateway(file, {
    over: { auth: undefined, onEvent },
  })
  const result = await resultOf(planned, { name: tool, arguments: given })
  stdout.write(`${json ? JSON.stringify(result) : textOf(result)}\n`)
  if (result['isError'] === true)
    throw new CommandError(toLine([`${tool} failed`, ...errors].join(': ')))
}

function parseArguments(message: string | undefined, json: string | undefined): object {
  if ((message === undefined) === (json === undefined)) {
    throw new UsageError('Give a message, or --args: see mcp-gateway call --help')
  }
  if (json === undefined) return { message }
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (cause) {
    throw new UsageError(`--args must be a JSON object: ${toLine(cause)}`, { cause })
  }
  if (!isRecord(value))
    throw new UsageError('--args must be a JSON object, such as {"city": "Oslo"}')
  return value
}

type Result = Readonly<Record<string, unknown>>

/** Envelope of a request of 2026-07-28. */
const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN_REVISION,
  'io.modelcontextprotocol/clientInfo': { name: 'mcp-gateway call', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** @throws CommandError with the warnings of the file: they may explain why the tool is missing */
async function resultOf(
  planned: PlannedGateway,
  params: { readonly name: string; readonly arguments: object },
): Promise<Result> {
  const { gateway, warnings } = planned
  const response = await gateway.fetch(
    new Request('http://localhost/mcp', {
      method: 'POST',
      headers: {
        host: 'localhost',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN_REVISION,
        'mcp-method': 'tools/call',
        'mcp-name': encodeName(params.name),
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { ...params, _meta: META },
      }),
    }),
  )
  const answer = messagesFrom(await response.text()).find((each) => each['id'] === 1)
  const result = answer?.['result']
  if (isRecord(result)) return result
  const error = answer?.['error']
  if (!isRecord(error))
    throw new CommandError(`The gateway answered ${response.status} without a result`)
  const { message, data } = error
  const nearest: unknown = isRecord(data) ? data['nearest'] : undefined
  const names = Array.isArray(nearest) ? nearest.map(String) : []
  const advice = names.length === 0 ? [] : [`nearest: ${names.join(', ')}`]
  throw new CommandError(toLine([String(message), ...advice, ...warnings].join('; ')))
}

/** Reads JSON, or a stream of events (WHATWG HTML, section 9.2.6) with one line of data each. */
function messagesFrom(body: string): readonly Result[] {
  const texts = body.startsWith('{')
    ? [body]
    : body.split(/\r?\n/).flatMap((line) => (line.startsWith('data:') ? [line.slice(5)] : []))
  return texts
    .filter((text) => text.trim() !== '')
    .map((text): unknown => JSON.parse(text))
    .filter(isRecord)
}

function textOf({ content }: Result): string {
  if (!Array.isArray(content)) return ''
  return content.map((block: unknown) => blockText(block)).join('\n')
}

function blockText(block: unknown): string {
  if (!isRecord(block)) return ''
  if (block['type'] === 'text') return String(block['text'])
  if (block['type'] === 'resource_link') return String(block['uri'])
  const file = block['resource']
  if (isRecord(file)) {
    return [file['uri'], file['text']].filter((each) => typeof each === 'string').join('\n')
  }
  const { type, mimeType } = block
  return typeof mimeType === 'string' ? `[${String(type)} ${mimeType}]` : `[${String(type)}]`
}

/** Returns the sessions of all gateways that share the store of a file, as a table or as JSON. */
export async function listSessions(file: ConfigFile, json: boolean): Promise<string> {
  const sessions = (await sessionsOf(await readConfigFile(file), file.file)).map(shownSession)
  return json ? `${JSON.stringify(sessions)}\n` : tableOf(sessions)
}

type ShownSession = ReturnType<typeof shownSession>

/** @throws CommandError if the store is not shared: then only the gateway itself can see its sessions */
async function sessionsOf(
  { config, sections }: ReadConfig,
  file: string,
): Promise<readonly ListedSession[]> {
  const { type } = config.store
  if (!Object.hasOwn(sections.store, type)) {
    const what = `With store.type ${type} only the gateway itself knows its sessions`
    throw new CommandError(`${what}: see mcp_gateway_sessions of its metrics`)
  }
  const context = { folder: dirname(file), onWarning: () => undefined, sections }
  const store = await makeStore(config.store, context)
  try {
    return await storedSessions(store.records)
  } finally {
    await store.close()
  }
}

const SHOWN_DIGITS = 8

function shownSession({ name, record }: ListedSession) {
  const [caller = '', session = ''] = name.split(':')
  const { protocolVersion, clientInfo } = record.handshake
  return {
    session: session.slice(0, SHOWN_DIGITS),
    caller: caller.slice(0, SHOWN_DIGITS),
    client: safeText(clientInfo['name']),
    version: safeText(clientInfo['version']),
    revision: safeText(protocolVersion),
    startedAt: new Date(record.createdAt).toISOString(),
  }
}

/** A name or version that a client gives itself. */
function safeText(value: unknown): string {
  return typeof value === 'string' ? printable(value).slice(0, 64) : ''
}

function tableOf(sessions: readonly ShownSession[]): string {
  const title = sessions.length === 1 ? '1 session' : `${sessions.length} sessions`
  const lines = sessions
    .toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1))
    .map(({ session, caller, client, version, revision, startedAt }) => {
      return `  ${session}  of ${caller}  ${startedAt}  ${revision}  ${client} ${version}`.trimEnd()
    })
  return `${[title, ...lines].join('\n')}\n`
}

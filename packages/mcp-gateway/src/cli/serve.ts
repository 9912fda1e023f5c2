// The commands that serve and work: start a gateway from a file, and bring new versions of the file into it.
import { dirname } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

import { isLoopback, isRecord } from '@x/internal'
import { CommandError, listenToStopSignals, toLine } from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import type { Logger } from 'pino'

import type { AgentSource } from '../agents/agent.ts'
import { checkAuthFits } from '../http/auth/combine.ts'
import { GatewayError } from '../errors.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { mergeLive, pathText, type SettingPath } from '../gateway/setting-paths.ts'
import { gatewayLog, logObserver } from '../gateway/logger.ts'
import { allObservers } from '../internal/observer.ts'
import { spansOnDemand } from '../gateway/call-spans.ts'
import { watchFile } from '../internal/watch.ts'
import type { GatewayOptions } from '../options.ts'
import { stateKeyFrom } from '../internal/signing.ts'
import { readConfigFile, readSettled, type ConfigFile, type ReadConfig } from './config-file.ts'
import type { FileSections } from './file-sections.ts'
import {
  toLiveOptions,
  toOptions,
  type FileOptions,
  type FileSettings,
  type PlacedSource,
  type SourceSettings,
} from './file-settings.ts'

export interface ServingOptions {
  readonly context: CommandContext
  readonly configFile: ConfigFile
  /** Serves clients. */
  readonly serves: boolean
  /** Executes queued tasks, if the file names an engine. */
  readonly works: boolean
  /** Loads graphs again when their files are written. */
  readonly watch: boolean
  /** Prints the first line as JSON. */
  readonly json: boolean
}

/** Serves or executes the agents of a file until a signal, or until the client on the pipe leaves. @throws CommandError, GatewayError */
export async function serveFile(options: ServingOptions): Promise<void> {
  const { context, configFile } = options
  const read = await readConfigFile(configFile)
  using signals = listenToStopSignals(context.onSignal, context.exit)
  try {
    await serveConfig(options, read, signals.stopped)
  } catch (error) {
    throw withPlace(error, read)
  }
}

async function serveConfig(
  { context, configFile, serves, works, watch, json }: ServingOptions,
  read: ReadConfig,
  stopped: Promise<NodeJS.Signals>,
): Promise<void> {
  const { config, sections } = read
  const log = gatewayLog({ level: config.log.level, output: context.stderr })
  const observer = allObservers([logObserver(log), await spansOnDemand()])
  const folder = dirname(configFile.file)
  const onWarning = observer.warned
  await using configured = await toOptions(config, { folder, watch, onWarning, sections })
  if (serves) checkServable(config, configured.options, onWarning)
  else if (!configured.options.engine) {
    const text =
      'Without an engine there are no queued tasks to execute: set store.type to redis, and store.tasks to true'
    throw new GatewayError('CONFIG', text, { path: 'store' })
  }
  // The observer receives warnings already.
  const options = { ...configured.options, onWarning: undefined, logger: false as const, observer }
  await using gateway = createGateway(options)
  const ended: Promise<unknown>[] = [stopped]
  if (!serves) {
    // It prints its line when it executes tasks.
  } else if (config.transport === 'stdio') {
    const { stdin: input, stdout: output } = context
    ended.push(gateway.serveStdio({ input, output }).closed)
  } else {
    const { url } = await gateway.listen({ insecure: config.http.insecure })
    context.stdout.write(`${json ? JSON.stringify({ url }) : url}\n`)
    log.info({ url }, 'listening')
  }
  const reloads = new Reloads({ configFile, read, gateway, log, configured })
  const reload = (): void => reloads.reload()
  const undoSignal = context.onSignal('SIGHUP', reload)
  const undoWatch = watchFile(configFile.file, {
    onChange: reload,
    onError: (error) =>
      log.warn({ error: toLine(error) }, 'the file is not watched; SIGHUP reads it again'),
  })
  try {
    const begin = async (): Promise<void> => {
      // In development, a graph with a mistake will be corrected while the gateway runs.
      if (!watch) {
        await gateway.registry.start()
        checkSources(gateway, configured.sources, read)
      }
      if (!works || !options.engine) return
      await gateway.work()
      const tools = gateway.registry.plan().tools.length
      log.info({ tools }, 'executing tasks')
      if (serves) return
      const line = `Executes the queued tasks of ${tools} ${tools === 1 ? 'tool' : 'tools'}`
      context.stdout.write(`${json ? JSON.stringify({ tools }) : line}\n`)
    }
    await Promise.race([begin(), ...ended])
    const signal = await Promise.race(ended)
    log.info(typeof signal === 'string' ? { signal } : {}, 'stopping')
  } finally {
    undoSignal()
    undoWatch()
    await reloads.settled()
  }
}

/**
 * Checks sources that were asked once. A source that cannot be reached now may come later.
 *
 * @throws CommandError with a line for each source that can never work
 */
export function checkSources(
  gateway: Gateway,
  sources: readonly PlacedSource[],
  read: ReadConfig,
): void {
  const failed = gateway.registry.status().sources.flatMap(({ name, state, reason }) => {
    if (state !== 'failed') return []
    const place = read.placeOf(
      `agents.sources[${sources.findIndex(({ source }) => source.name === name)}]`,
    )
    return [toLine(`${place}: ${name}: ${reason ?? 'it gave no reason'}`)]
  })
  if (failed.length > 0) throw new CommandError(failed.join('\n'))
}

/** Adds the line of a wrong setting to an error. */
export function withPlace(error: unknown, { placeOf }: ReadConfig): unknown {
  if (!GatewayError.is(error)) return error
  const { code, path = code === 'LISTEN' ? 'http.port' : undefined, message } = error
  if (path === undefined) return error
  const advice =
    code === 'LISTEN' ? '. Choose another http.port (0: any free port) or http.host' : ''
  return new CommandError(`${placeOf(path)}: ${message}${advice}`, { cause: error })
}

/**
 * Finds mistakes that only matter when clients are served: auth on stdio, a public address without auth, processes
 * that cannot verify each other's signatures. An address at which requests would be refused is only a warning: it may
 * be the address of a container.
 *
 * @throws GatewayError `CONFIG`, as the start would
 */
export function checkServable(
  { http, transport, agents }: FileSettings,
  { auth, secrets, store }: GatewayOptions,
  onWarning: (message: string) => void,
): void {
  checkAuthFits(auth, transport === 'stdio' ? 'stdio' : http)
  if (agents.sources.length === 0) onWarning('There are no tools: agents.sources is empty')
  const { host, publicUrl, allowedHosts } = http
  const isNamed = publicUrl !== undefined || allowedHosts.length > 0
  if (transport === 'http' && auth === undefined && !isLoopback(host) && !isNamed) {
    onWarning(
      `Without auth, only requests for localhost are answered at ${host}: set http.publicUrl, or name hosts in http.allowedHosts`,
    )
  }
  const isShared = store?.isShared ?? false
  stateKeyFrom({ stateKey: secrets?.stateKey, isShared, onWarning: () => undefined })
}

// ---- new versions of the file --------------------------------------------------------------------------------------

interface ReloadsOptions {
  readonly configFile: ConfigFile
  /** The configuration that the gateway was started with. */
  readonly read: ReadConfig
  readonly configured: FileOptions
  readonly gateway: Gateway
  readonly log: Logger
}

/** Brings new versions of a file into a running gateway, one after the other. */
class Reloads {
  readonly #options: ReloadsOptions
  #config: FileSettings
  #sources: readonly PlacedSource[]
  #last: Promise<void> = Promise.resolve()

  constructor(options: ReloadsOptions) {
    this.#options = options
    this.#config = options.read.config
    this.#sources = options.configured.sources
  }

  /** Never rejects: a file with a mistake changes nothing, and the log says why. */
  reload(): void {
    this.#last = this.#last
      .then(() => this.#reload())
      .catch((error: unknown) => {
        const message = error instanceof Error ? error.message : String(error)
        this.#options.log.error({ error: message }, 'the file has a mistake: nothing is changed')
      })
  }

  /** Resolves when no reload is in progress. */
  settled(): Promise<void> {
    return this.#last
  }

  async #reload(): Promise<void> {
    const { configFile, gateway, log } = this.#options
    const read = await readConfigFile(configFile, readSettled)
    const { config, live, waiting } = configChange(this.#config, read)
    if (live.length > 0) {
      try {
        // All sources are made before the first change, so that a wrong source changes nothing.
        const sources = await this.#makeSources(config.agents.sources, read.sections)
        await gateway.update(toLiveOptions(config))
        await this.#useSources(sources)
      } catch (error) {
        throw withPlace(error, read)
      }
      log.level = config.log.level
      // A source that failed to start is not in this list, so that the next reload tries it again.
      const sources = this.#sources.map((placed) => placed.config)
      this.#config = { ...config, agents: { ...config.agents, sources } }
    }
    if (live.length > 0) log.info({ changed: live }, 'the file was read again')
    if (waiting.length > 0) log.warn({ waiting }, 'these changes wait for the next start')
  }

  /** Keeps sources whose settings are the same as before. */
  async #makeSources(
    wanted: readonly SourceSettings[],
    sections: FileSections,
  ): Promise<readonly PlacedSource[]> {
    const { makeSource } = this.#options.configured
    const left = [...this.#sources]
    return Promise.all(
      wanted.map(async (config, place) => {
        const index = left.findIndex((each) => isDeepStrictEqual(each.config, config))
        const [kept] = index < 0 ? [] : left.splice(index, 1)
        return kept ?? { config, source: await makeSource(config, place, sections) }
      }),
    )
  }

  /** A new source replaces the source that had its place in the file. */
  async #useSources(wanted: readonly PlacedSource[]): Promise<void> {
    const { gateway, log } = this.#options
    const before = this.#sources
    const length = Math.max(before.length, wanted.length)
    const failed = await gateway.registry.replaceSources(
      Array.from({ length }, (_, at) => {
        return { gone: sourceOnlyIn(at, before, wanted), come: sourceOnlyIn(at, wanted, before) }
      }),
    )
    this.#sources = wanted.map((placed, at) => {
      return failed.includes(placed.source) ? (before[at] ?? placed) : placed
    })
    if (failed.length > 0) {
      const sources = failed.map(({ name }) => name)
      log.error({ sources }, 'these could not be started: what they were to replace stays')
    }
  }
}

/** The source at a place of one list, unless the other list has it too. */
function sourceOnlyIn(
  at: number,
  list: readonly PlacedSource[],
  other: readonly PlacedSource[],
): AgentSource | undefined {
  return list.slice(at, at + 1).find((placed) => !other.includes(placed))?.source
}

export interface ConfigChange {
  /** The configuration before, with all changes that take effect now. */
  readonly config: FileSettings
  /** Settings that take effect now. */
  readonly live: readonly string[]
  /** Settings that need a restart. */
  readonly waiting: readonly string[]
}

export function configChange(
  before: FileSettings,
  { config: after, schema }: Pick<ReadConfig, 'config' | 'schema'>,
): ConfigChange {
  const config = mergeLive(schema, before, after)
  return {
    config,
    live: differences(before, config, []).map(pathText),
    waiting: differences(config, after, []).map(pathText),
  }
}

function differences(before: unknown, after: unknown, path: SettingPath): readonly SettingPath[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isRecord(before) || !isRecord(after)) return [path]
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) => differences(before[key], after[key], [...path, key]))
}

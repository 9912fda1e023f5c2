// The commands that serve and work: start a gateway from a file.
import { dirname } from 'node:path'

import { isLoopback, splitErrorLink, withErrorLink } from '@x/internal'
import { CommandError, listenToStopSignals, toLine } from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { checkAuthFits } from '../http/auth/combine.ts'
import { READY_PATH } from '../http/router.ts'
import { GatewayError } from '../errors.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { auditObserver, gatewayLog, toGatewayLogger } from '../gateway/logger.ts'
import { loggerObserver } from '../internal/logger.ts'
import { allObservers } from '../internal/observer.ts'
import { registeredSpans } from '../gateway/call-spans.ts'
import type { GatewayOptions } from '../options.ts'
import { stateKeyFrom } from '../internal/signing.ts'
import { readConfigFile, type ConfigFile, type ReadConfig } from './config-file.ts'
import { toOptions, type FileOptions, type FileSettings } from './file-settings.ts'

export interface ServingOptions {
  readonly context: CommandContext
  readonly configFile: ConfigFile
  /** How it serves clients. `undefined`: it serves none. */
  readonly serves: 'http' | 'stdio' | undefined
  /** Executes queued tasks, if the file names an engine. */
  readonly works: boolean
  /** Prints the first line as JSON. */
  readonly json: boolean
}

/** Serves or executes the agents of a file until a signal, or until the client on the pipe leaves. @throws CommandError, GatewayError */
export async function serveFile(options: ServingOptions): Promise<void> {
  const { context, configFile } = options
  const read = await readConfigFile(configFile)
  using signals = listenToStopSignals(context)
  try {
    await serveConfig(options, read, signals.stopped)
  } catch (error) {
    throw withPlace(error, read)
  }
}

async function serveConfig(
  { context, configFile, serves, works, json }: ServingOptions,
  read: ReadConfig,
  stopped: Promise<NodeJS.Signals>,
): Promise<void> {
  const { config, sections } = read
  // Never to standard output, which may carry the protocol.
  const log = gatewayLog(config.log.level, context.stderr)
  const logger = toGatewayLogger(log)
  const onWarning = loggerObserver(logger).warned
  const folder = dirname(configFile.file)
  await using configured = await toOptions(config, { folder, onWarning, sections })
  if (serves) {
    const stdio = serves === 'stdio'
    const [mistake] = servingMistakes(config, configured.options, { stdio, onWarning })
    if (mistake) throw mistake
  }
  if (!serves && !configured.options.engine) {
    const text =
      'Without an engine there are no queued tasks to execute: set store.url, and store.tasks to the number of tasks at a time'
    throw new GatewayError('CONFIG', text, { path: 'store' })
  }
  const observer = allObservers([auditObserver(log), await registeredSpans()])
  const options = { ...configured.options, log: logger, observer }
  await using gateway = createGateway(options)
  const ended: Promise<unknown>[] = [stopped]
  let probed = ''
  if (serves === 'stdio') {
    const { stdin: input, stdout: output } = context
    ended.push(gateway.serveStdio({ input, output }).closed)
  } else if (serves === 'http') {
    const { url } = await gateway.listen({ insecure: config.http.insecure })
    context.stdout.write(`${json ? JSON.stringify({ url }) : url}\n`)
    log('info', { url }, 'listening')
  } else {
    const { url } = await gateway.listen({ probesOnly: true })
    probed = url
    log('info', { url }, 'answering probes')
  }
  const begin = async (): Promise<void> => {
    await gateway.registry.start()
    const failed = failedSources(gateway, configured, read)
    if (failed.length > 0) throw new CommandError(withErrorLink(failed.join('\n'), 'CONFIG'))
    if (!works || !options.engine) return
    await gateway.work()
    const tools = gateway.registry.plan().tools.length
    log('info', { tools }, 'executing tasks')
    if (serves) return
    const named = `${tools} ${tools === 1 ? 'tool' : 'tools'}`
    const line = `Executes the queued tasks of ${named}, ready at ${probed}${READY_PATH}`
    context.stdout.write(`${json ? JSON.stringify({ tools, url: probed }) : line}\n`)
  }
  await Promise.race([begin(), ...ended])
  const signal = await Promise.race(ended)
  log('info', typeof signal === 'string' ? { signal } : {}, 'stopping')
}

/**
 * Returns a line for each source that can never work, after all were asked once. A source that cannot be reached now may
 * come later.
 */
export function failedSources(
  gateway: Gateway,
  { options, sourcePaths }: FileOptions,
  read: ReadConfig,
): readonly string[] {
  return gateway.registry.status().sources.flatMap(({ name, state, reason }) => {
    if (state !== 'failed') return []
    const index = options.sources.findIndex((source) => source.name === name)
    const place = read.placeOf(sourcePaths[index] ?? 'sources')
    return [toLine(`${place}: ${name}: ${reason ?? 'it gave no reason'}`)]
  })
}

/** Adds the line of a wrong setting to an error. */
export function withPlace(error: unknown, { placeOf }: ReadConfig): unknown {
  if (!GatewayError.is(error)) return error
  const { code, path = code === 'LISTEN' ? 'http.port' : undefined } = error
  if (path === undefined) return error
  const advice =
    code === 'LISTEN' ? '. Choose another http.port (0: any free port) or http.host' : ''
  const [text, link] = splitErrorLink(error.message)
  return new CommandError(`${placeOf(path)}: ${text}${advice}${link}`, { cause: error })
}

/**
 * Finds mistakes that only matter when clients are served: auth on stdio, a public address without auth, processes
 * that cannot verify each other's signatures. An address at which requests would be refused is only a warning: it may
 * be the address of a container.
 */
export function servingMistakes(
  { auth: access, http, sources, tools }: FileSettings,
  { auth, stateKey, store }: GatewayOptions,
  { stdio, onWarning }: { stdio: boolean; onWarning: (message: string) => void },
): readonly GatewayError[] {
  if (sources.length === 0) onWarning('There are no tools: sources is empty')
  const { host, publicUrl, allowedHosts } = http
  const isNamed = publicUrl !== undefined || allowedHosts.length > 0
  if (!stdio && access === undefined && !isLoopback(host) && !isNamed) {
    onWarning(
      `Without auth, only requests for localhost are answered at ${host}: set http.publicUrl, or name hosts in http.allowedHosts`,
    )
  }
  const needsScopes = Object.values(tools.overrides).every(({ scopes }) => scopes?.length !== 0)
  for (const [name, { scopes = [] }] of Object.entries(access?.tokens ?? {})) {
    if (!needsScopes || scopes.length > 0) continue
    onWarning(
      `The token "${name}" has no scopes, so its caller sees no tool: give it scopes: ['*'], or the scopes of tools, such as agent:support:call`,
    )
  }
  const isShared = store?.isShared ?? false
  return [
    // Nothing can be said about an authenticator that could not be made.
    ...(access === undefined || auth
      ? errorOf(() => checkAuthFits(auth, stdio ? 'stdio' : http))
      : []),
    ...errorOf(() => stateKeyFrom({ stateKey, isShared, isLasting: false, onWarning: () => {} })),
  ]
}

function errorOf(check: () => unknown): readonly GatewayError[] {
  try {
    check()
    return []
  } catch (error) {
    if (GatewayError.is(error)) return [error]
    throw error
  }
}

import { CommandError, listenToStopSignals } from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import type { Logger } from 'pino'

import { gatewayOptionsFrom, type ConfiguredOptions } from './gateway-options-from.ts'
import type { ReadConfig } from './read-config.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { gatewayLog, logObserver } from '../gateway/gateway-log.ts'
import { allObservers } from '../internal/observers.ts'
import { spansOnDemand } from '../gateway/spans-on-demand.ts'
import { watchedFile } from '../internal/watched-file.ts'
import { readConfigFile, type ConfigFile } from './config-file.ts'
import { withPlace } from './planned-gateway.ts'
import { Reloading } from './reloading.ts'
import { checkServable } from './servable.ts'

export interface ServingOptions {
  readonly context: CommandContext
  readonly configFile: ConfigFile
  /** Loads graphs again when their files are written. */
  readonly watch: boolean
  /** Prints the address as JSON. */
  readonly json: boolean
}

/** Serves as a file says, until a signal or the end of the pipe. @throws CommandError, GatewayError */
export async function serveFile(options: ServingOptions): Promise<void> {
  const { context, configFile } = options
  const read = await readConfigFile(configFile)
  using signals = listenToStopSignals(context.onSignal, context.exit)
  try {
    await serveConfig({ ...options, read, stopped: signals.stopped })
  } catch (error) {
    throw withPlace(error, read)
  }
}

interface Serving extends ServingOptions {
  readonly read: ReadConfig
  readonly stopped: Promise<NodeJS.Signals>
}

async function serveConfig(serving: Serving): Promise<void> {
  const { context, configFile, read } = serving
  const { config } = read
  const log = gatewayLog({ level: config.log.level, output: context.stderr })
  const observer = allObservers([logObserver(log), await spansOnDemand()])
  const { file } = configFile
  const { watch } = serving
  const configured = await gatewayOptionsFrom(config, { file, watch, onWarning: observer.warned })
  try {
    checkServable(config, configured.options, observer.warned)
    // The observer hears warnings already.
    const gateway = createGateway({
      ...configured.options,
      onWarning: undefined,
      logger: false,
      observer,
    })
    try {
      await serveGateway(serving, { gateway, configured, log })
    } finally {
      await gateway.close()
    }
  } finally {
    await configured.close()
  }
}

interface Running {
  readonly gateway: Gateway
  readonly configured: ConfiguredOptions
  readonly log: Logger
}

async function serveGateway(
  serving: Serving,
  { gateway, configured, log }: Running,
): Promise<void> {
  const { context, configFile, read, stopped } = serving
  const { http, transport } = read.config
  const ended: Promise<unknown>[] = [stopped]
  if (transport === 'stdio') {
    const { stdin: input, stdout: output } = context
    ended.push(gateway.serveStdio({ input, output }).closed)
  } else {
    const { url } = await gateway.listen({ insecure: http.insecure })
    context.stdout.write(`${serving.json ? JSON.stringify({ url }) : url}\n`)
    log.info({ url }, 'listening')
  }
  const { sources, sourceContext } = configured
  const reloading = new Reloading({ configFile, read, gateway, log, sources, sourceContext })
  const reload = (): void => void reloading.reload()
  const undoSignal = context.onSignal('SIGHUP', reload)
  const undoWatch = watchedFile(configFile.file, {
    onChange: reload,
    onError: (error) => {
      const message = error instanceof Error ? error.message : String(error)
      log.warn({ error: message }, 'the file is not watched; SIGHUP reads it again')
    },
  })
  try {
    // In development a graph with a mistake is about to be written again.
    if (!serving.watch) await Promise.race([checkSources(gateway), ...ended])
    const signal = await Promise.race(ended)
    log.info(typeof signal === 'string' ? { signal } : {}, 'stopping')
  } finally {
    undoSignal()
    undoWatch()
    await reloading.settled()
  }
}

/**
 * Waits for the first look of all sources. What is only out of reach is no mistake: it may come.
 *
 * @throws CommandError for sources that cannot be right
 */
async function checkSources({ registry }: Gateway): Promise<void> {
  await registry.start()
  const failed = registry.status().sources.filter(({ state }) => state === 'failed')
  if (failed.length === 0) return
  const reasons = failed.map(({ name, reason = 'it said nothing' }) => `${name}: ${reason}`)
  throw new CommandError(reasons.join('; '))
}

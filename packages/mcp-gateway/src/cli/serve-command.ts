import type { Logger } from 'pino'

import type { ConfigSetting } from '../config/config-setting.ts'
import { gatewayOptionsFrom, type ConfiguredOptions } from '../config/gateway-options-from.ts'
import type { ReadConfig } from '../config/read-config.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { gatewayLog, logObserver } from '../operation/gateway-log.ts'
import { allObservers } from '../operation/observers.ts'
import { spansOnDemand } from '../operation/spans-on-demand.ts'
import { watchedFile } from '../operation/watched-file.ts'
import type { Command, CommandContext } from './command.ts'
import { DEFAULT_FILE, readConfigFile, type ConfigFile } from './config-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import { withPlace } from './planned-gateway.ts'
import { Reloading } from './reloading.ts'
import { stopSignals } from './stop-signals.ts'

export const serveCommand: Command = {
  help: `Usage: mcp-gateway [serve] [file] [options]

Offers the agents of a file (default: ${DEFAULT_FILE}) until SIGTERM or Ctrl-C, and prints the
address of the MCP endpoint as its first line. Logs go to standard error. The first signal lets
calls end for http.shutdownGraceMs; a second one ends the process at once.

A new version of the file takes effect when it is written, and on SIGHUP: sources of agents,
filters, overrides and limits at once; what else changed is named in the log and waits for the
next start. A file with a mistake changes nothing, and the log says where it is.

Where to listen
  --port <n>           0 takes a free one (http.port)
  --host <address>     (http.host)
  --insecure           serve everybody at an address that others can reach (http.insecure)
  --stdio              serve one client on standard input and output instead (transport)

What to say
  --log-level <level>  trace, debug, info, warn, error, silent (log.level)
  --json               print the address as JSON: {"url"}
  --help               this text

An option wins over the environment (MCP_GATEWAY_HTTP_PORT for http.port, and so on), which wins
over the file.
`,
  run: serve,
}

async function serve(context: CommandContext): Promise<void> {
  const { values, positionals } = parseOptions('serve', context.args, {
    port: { type: 'string' },
    host: { type: 'string' },
    insecure: { type: 'boolean' },
    stdio: { type: 'boolean' },
    'log-level': { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  atMost('serve', positionals, 1)
  const [file = DEFAULT_FILE] = positionals
  const flags = [
    setting('http.port', '--port', values.port),
    setting('http.host', '--host', values.host),
    setting('http.insecure', '--insecure', values.insecure && 'true'),
    setting('transport', '--stdio', values.stdio && 'stdio'),
    setting('log.level', '--log-level', values['log-level']),
  ].flat()
  const configFile = { file, env: context.env, flags }
  const read = await readConfigFile(configFile)
  const signals = stopSignals(context)
  try {
    await serveConfig({ context, configFile, read, stopped: signals.stopped, json: values.json })
  } catch (error) {
    throw withPlace(error, read)
  } finally {
    signals.undo()
  }
}

function setting(path: string, from: string, text: string | false | undefined): ConfigSetting[] {
  return text === undefined || text === false ? [] : [{ path: path.split('.'), text, from }]
}

interface Serving {
  readonly context: CommandContext
  readonly configFile: ConfigFile
  readonly read: ReadConfig
  readonly stopped: Promise<NodeJS.Signals>
  readonly json: boolean
}

async function serveConfig(serving: Serving): Promise<void> {
  const { context, configFile, read } = serving
  const { config } = read
  const log = gatewayLog({ level: config.log.level, output: context.stderr })
  const observer = allObservers([logObserver(log), await spansOnDemand()])
  const { file } = configFile
  const configured = await gatewayOptionsFrom(config, { file, onWarning: observer.warned })
  try {
    // The observer hears warnings already.
    const gateway = createGateway({ ...configured.options, onWarning: undefined, observer })
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
  const reloading = new Reloading({ configFile, read, gateway, log, sources: configured.sources })
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
    const signal = await Promise.race(ended)
    log.info(typeof signal === 'string' ? { signal } : {}, 'stopping')
  } finally {
    undoSignal()
    undoWatch()
    await reloading.settled()
  }
}

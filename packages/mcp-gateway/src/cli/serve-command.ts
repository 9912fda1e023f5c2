import type { Command, CommandContext } from './command.ts'
import { DEFAULT_FILE } from './default-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import { serveFlags, SERVE_OPTIONS } from './serve-flags.ts'

export const serveCommand: Command = {
  help: `Usage: mcp-gateway [serve] [file] [options]

Offers the agents of a file (default: ${DEFAULT_FILE}) until SIGTERM or Ctrl-C, and prints the
address of the MCP endpoint as its first line. Logs go to standard error. After the first signal
calls are taken for http.drainDelayMs, and may end for http.shutdownGraceMs; a second one ends the
process at once.

A source that cannot be right, such as a file that is not there, is a failed start; one that only
cannot be reached now may come later.

A new version of the file takes effect when it is written, and on SIGHUP: sources of agents,
filters, overrides and limits at once; what else changed is named in the log and waits for the
next start. A file with a mistake changes nothing, and the log says where it is.

Where to listen
  --port <n>           0 takes a free one (http.port)
  --host <address>     (http.host)
  --insecure           serve everybody at an address that others can reach (http.insecure)
  --stdio              serve one client on standard input and output instead (transport)

What to offer
  --watch              load the graphs of a langgraph.json again when it, or a file that it names,
                       is written; for development: what these files import stays as it was

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
    ...SERVE_OPTIONS,
    json: { type: 'boolean', default: false },
    watch: { type: 'boolean', default: false },
  })
  atMost('serve', positionals, 1)
  const [file = DEFAULT_FILE] = positionals
  const { serveFile } = await import('./serving.ts')
  await serveFile({
    context,
    configFile: { file, env: context.env, flags: serveFlags(values) },
    json: values.json,
    watch: values.watch,
  })
}

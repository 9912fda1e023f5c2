import { debugStateConfigFrom } from '../debug-state-config.ts'
import type { DebugStateConfig } from '../debug-state-config.ts'
import { isAgentId } from '../server/address.ts'
import { UsageError } from './command-error.ts'
import type { CommandContext } from './command.ts'
import { parseOptions, positionalsFrom } from './parse-options.ts'

/** Which service to ask, and for what. */
export interface ServiceOptions {
  readonly config: DebugStateConfig
  /** The positionals after the agent id. */
  readonly rest: readonly string[]
  readonly json: boolean
}

export const SERVICE_HELP = `Which service
  --url <url>            its address (default: $DEBUGSTATE_URL, else $UIPATH_URL)
  --token <token>        seen by whoever lists the processes of this machine; better keep it in
                         $DEBUGSTATE_TOKEN, the default ($UIPATH_ACCESS_TOKEN for $UIPATH_URL)
  --path-prefix <path>   before the agent id (default: agenthub_/design/debugstate)`

/** @throws UsageError that says what is missing */
export function serviceOptionsFrom(
  command: string,
  names: readonly string[],
  { args, env }: CommandContext,
): ServiceOptions {
  const { values, positionals } = parseOptions(command, args, {
    url: { type: 'string' },
    token: { type: 'string' },
    'path-prefix': { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  const [agentId = '', ...rest] = positionalsFrom(command, positionals, ['agentId', ...names])
  if (!isAgentId(agentId)) throw new UsageError(`${JSON.stringify(agentId)} is no agent id`)
  const { url, token } = values
  const config = configFrom(
    { baseUrl: url, token, pathPrefix: values['path-prefix'] },
    agentId,
    env,
  )
  return { config, rest, json: values.json }
}

function configFrom(
  options: {
    baseUrl: string | undefined
    token: string | undefined
    pathPrefix: string | undefined
  },
  agentId: string,
  env: CommandContext['env'],
): DebugStateConfig {
  if (options.baseUrl !== undefined && !/^https?:\/\//.test(options.baseUrl)) {
    throw new UsageError('--url takes an http(s) URL')
  }
  let config: ReturnType<typeof debugStateConfigFrom>
  try {
    config = debugStateConfigFrom({ ...options, agentId }, env)
  } catch (cause) {
    throw new UsageError('--url takes an http(s) URL without query, user and password', { cause })
  }
  if (!('missing' in config)) return config
  throw new UsageError(
    options.baseUrl === undefined && !env['DEBUGSTATE_URL'] && !env['UIPATH_URL']
      ? 'Which service? Add --url or set DEBUGSTATE_URL'
      : config.missing,
  )
}

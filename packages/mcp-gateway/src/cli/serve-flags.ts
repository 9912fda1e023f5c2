import type { ConfigSetting } from '../config/config-setting.ts'

/** Options of the command line that stand for a value of the file. */
export const SERVE_OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  insecure: { type: 'boolean' },
  stdio: { type: 'boolean' },
  'log-level': { type: 'string' },
} as const

type ServeValues = {
  readonly [Name in keyof typeof SERVE_OPTIONS]?:
    | ((typeof SERVE_OPTIONS)[Name]['type'] extends 'string' ? string : boolean)
    | undefined
}

/** What they say, as settings. */
export function serveFlags(values: ServeValues): readonly ConfigSetting[] {
  return [
    setting('http.port', '--port', values.port),
    setting('http.host', '--host', values.host),
    setting('http.insecure', '--insecure', values.insecure && 'true'),
    setting('transport', '--stdio', values.stdio && 'stdio'),
    setting('log.level', '--log-level', values['log-level']),
  ].flat()
}

function setting(path: string, from: string, text: string | false | undefined): ConfigSetting[] {
  return text === undefined || text === false ? [] : [{ path: path.split('.'), text, from }]
}

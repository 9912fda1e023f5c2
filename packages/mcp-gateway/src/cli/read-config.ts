import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import { environmentSettings } from './config-environment.ts'
import { pathFrom, pathText, type ConfigPath } from './config-path.ts'
import { problemsFrom, type ConfigProblem } from './config-problem.ts'
import { configSchema } from './config-schema.ts'
import { withSettings, type ConfigSetting } from './config-setting.ts'
import { kindAt } from './config-shape.ts'
import { configText, type ConfigText } from './config-text.ts'
import { expandVariables, type Environment } from './expand-variables.ts'
import type { GatewayConfig } from './gateway-config.ts'
import { valueFromText } from './typed-text.ts'

export interface ConfigSource {
  /** YAML, or the same as an object. */
  readonly content: string | Readonly<Record<string, unknown>>
  /** For messages. @default 'configuration' */
  readonly name?: string | undefined
  /** @default none */
  readonly env?: Environment | undefined
  /** Flags: they win over the environment, which wins over the content. @default none */
  readonly flags?: readonly ConfigSetting[] | undefined
}

/** A configuration, and where each part of it was said. */
export interface ReadConfig {
  readonly config: GatewayConfig
  /** `gateway.yaml:12`, `MCP_GATEWAY_HTTP_PORT`, `--port`: of a default what is nearest around it, or the whole file. */
  readonly placeOf: (path: string) => string
}

/**
 * Reads a configuration whole: variables are expanded, flags and environment put in, everything is checked.
 *
 * @throws GatewayError `CONFIG` with a line for each thing that is wrong, and the path of the first one
 */
export function readConfig(source: ConfigSource): ReadConfig {
  const { content, name = 'configuration', env = {}, flags = [] } = source
  const text: ConfigText =
    typeof content === 'string'
      ? configText(content, name)
      : { value: content, lineOf: () => undefined }
  const settings = [...environmentSettings(env), ...flags]
  const placeOf = (path: ConfigPath): string | undefined => {
    const setting = settings.findLast((each) => isWithin(path, each.path))
    if (setting) return setting.from
    const line = text.lineOf(path)
    return line === undefined ? undefined : `${name}:${line}`
  }
  const { value, problems } = expanded(text.value ?? {}, env)
  const complete = withSettings(value, settings)
  const result = configSchema.safeParse(complete)
  if (result.success && problems.length === 0) {
    return { config: result.data, placeOf: (path) => placeOf(pathFrom(path)) ?? name }
  }
  const others = result.error?.issues.flatMap((issue) => problemsFrom(issue, complete)) ?? []
  // What was not expanded is wrong in one way, and not in another one besides.
  const isTold = (path: ConfigPath): boolean => problems.some((each) => isWithin(path, each.path))
  problems.push(...others.filter(({ path }) => !isTold(path)))
  const lines = problems.map((each) => `${placeOf(each.path) ?? name}: ${each.text}`)
  throw new GatewayError('CONFIG', lines.join('\n'), { path: pathText(problems[0]?.path ?? []) })
}

interface Expanded {
  readonly value: unknown
  readonly problems: ConfigProblem[]
}

/** Without what is `null`: that is the default, as a section is whose keys are all comments. */
function expanded(content: unknown, env: Environment): Expanded {
  const problems: ConfigProblem[] = []
  const visit = (value: unknown, path: ConfigPath): unknown => {
    if (Array.isArray(value)) return value.map((each, index) => visit(each, [...path, index]))
    if (isRecord(value)) {
      const entries = Object.entries(value).filter(
        ([, each]) => each !== null && each !== undefined,
      )
      return Object.fromEntries(entries.map(([key, each]) => [key, visit(each, [...path, key])]))
    }
    if (typeof value !== 'string') return value
    const { text, isExpanded, missing, malformed } = expandVariables(value, env)
    const place = pathText(path)
    for (const each of missing) {
      const advice = `set it, or give a default: \${${each}:-…}`
      problems.push({
        path,
        text: `${place} needs the variable ${each}, which is not set: ${advice}`,
      })
    }
    for (const each of malformed) {
      const advice = 'write ${NAME} or ${NAME:-default}, and $${ for the characters themselves'
      problems.push({ path, text: `${place} has a "${each}" that begins no variable: ${advice}` })
    }
    return isExpanded ? valueFromText(text, kindAt(path)) : text
  }
  return { value: visit(content, []), problems }
}

function isWithin(path: ConfigPath, setting: ConfigPath): boolean {
  return setting.every((part, index) => part === path[index])
}

import type { Agent, Skill } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import type { ToolOverride, ToolSettings } from '../options.ts'

type Overrides = Readonly<Record<string, ToolOverride>>

/** What is configured for a skill, and by which key. Ids win over names. */
export function overrideFor(
  agent: Agent,
  skill: Skill,
  overrides: Overrides = {},
): { readonly key: string; readonly override: ToolOverride } | undefined {
  const keys = [agent.id, agent.name].flatMap((first) =>
    skill.name === ''
      ? [first, `${first}/${skill.id}`]
      : [`${first}/${skill.id}`, `${first}/${skill.name}`],
  )
  for (const key of keys) {
    const override = Object.hasOwn(overrides, key) ? overrides[key] : undefined
    if (override !== undefined) return { key, override }
  }
  return undefined
}

/**
 * Overrides that can be right, whatever agents come.
 *
 * @throws GatewayError `CONFIG` for a name that MCP does not allow, or that two of them give
 */
export function checkOverrides(options: ToolSettings, reservedNames: readonly string[]): void {
  const owners = new Map<string, string>()
  const reserved = new Set(reservedNames)
  for (const [key, override] of Object.entries(options.overrides)) {
    const path = `tools.overrides["${key}"]`
    const { name } = override
    if (name === undefined) continue
    const maxLength = options.names.maxLength
    const defect = nameDefect(name, maxLength)
    const other = owners.get(name)
    const why =
      defect ??
      (reserved.has(name) ? 'a tool of the gateway itself has it' : undefined) ??
      (other === undefined ? undefined : `tools.overrides["${other}"] gives it, too`)
    if (why !== undefined) {
      throw new GatewayError('CONFIG', `${path}.name is "${name}": ${why}`, {
        path: `${path}.name`,
      })
    }
    owners.set(name, key)
  }
}

function nameDefect(name: string, maxLength: number): string | undefined {
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return 'only letters, digits, "_", "-" and "." are allowed'
  if (name.length > maxLength)
    return `it has more than tools.names.maxLength (${maxLength}) characters`
  return undefined
}

import type { Gateway } from '../gateway.ts'

/** What a configuration makes of the agents that are there. */
export interface PlanReport {
  readonly tools: readonly {
    readonly name: string
    readonly agent: string
    readonly skill: string
    readonly title: string
  }[]
  readonly collisions: readonly {
    readonly wanted: string
    readonly owner: string
    readonly other: string
    readonly given: string
  }[]
  readonly dropped: readonly {
    readonly agent: string
    readonly skill: string
    readonly why: string
    readonly reason: string
  }[]
  readonly sources: readonly {
    readonly name: string
    readonly state: string
    readonly reason?: string | undefined
  }[]
  readonly warnings: readonly string[]
}

export function planReport({ registry }: Gateway, warnings: readonly string[]): PlanReport {
  const { tools, collisions, dropped, warnings: odd } = registry.plan()
  return {
    tools: tools.map(({ name, agent, skill, title }) => ({
      name,
      agent: agent.id,
      skill: skill.id,
      title,
    })),
    collisions,
    dropped: dropped.map(({ agentId, skillId, why, reason }) => ({
      agent: agentId,
      skill: skillId,
      why,
      reason,
    })),
    sources: registry.status().sources,
    warnings: [...new Set([...odd, ...warnings])],
  }
}

/** For people. Empty parts are left out, but for the tools. */
export function reportText({ tools, collisions, dropped, sources, warnings }: PlanReport): string {
  const width = Math.max(0, ...tools.map(({ name }) => name.length))
  const failed = sources.filter(({ state }) => state === 'failed')
  const sections = [
    section(
      tools.length === 1 ? '1 tool' : `${tools.length} tools`,
      tools.map(({ name, title }) => `${name.padEnd(width)}  ${title}`),
      true,
    ),
    section(
      'Names that several wanted',
      collisions.map(({ wanted, owner, other, given }) => {
        return `${wanted}: ${owner} has it, ${other} is ${given}`
      }),
    ),
    section(
      'Left out',
      dropped.map(({ agent, skill, reason }) => `${agent}/${skill}: ${reason}`),
    ),
    section(
      'Sources that failed',
      failed.map(({ name, reason }) => `${name}: ${reason ?? 'it said nothing'}`),
    ),
    section('Odd', warnings),
  ]
  return sections.filter((each) => each !== '').join('\n')
}

function section(title: string, lines: readonly string[], isAlways = false): string {
  if (lines.length === 0 && !isAlways) return ''
  return `${title}\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`
}

/** Text of agents, which could otherwise move the cursor or hide something. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
}

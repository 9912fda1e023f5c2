/**
 * What scenarios are run against. `agents`: a gateway, with agents that do what the suite asks for.
 * `sampling`: the same, with one tool beside the agents' that needs sampling. `fixture`: the HTTP, sessions
 * and routing of a gateway, with the fixture server of @x/mcp-testing behind it, which has what agents have not.
 */
export const TARGETS = ['agents', 'sampling', 'fixture'] as const

export type TargetKind = (typeof TARGETS)[number]

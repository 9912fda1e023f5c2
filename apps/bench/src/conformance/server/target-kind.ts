/**
 * What scenarios are run against. `agents`: a gateway, with agents that do what the suite asks for.
 * `fixture`: the same HTTP, sessions and routing of a gateway, with the fixture server of the test-kit
 * behind it, which has what agents have not.
 */
export const TARGETS = ['agents', 'fixture'] as const

export type TargetKind = (typeof TARGETS)[number]

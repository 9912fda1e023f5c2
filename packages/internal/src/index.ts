// Small helpers that several packages need. The build of each package copies them into its output.
export * as check from './check.ts'
export { isRecord } from './is-record.ts'
export { editDistance, nearestWord } from './nearest-word.ts'
export { assertRuntime, runtimeProblem } from './runtime.ts'
export { sharedStorage } from './shared-storage.ts'
export { assertOptions, optionError, optionProblem } from './option-checks.ts'
export type { Check, Checks } from './check.ts'
export type { OptionProblem } from './option-checks.ts'

// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { a2aSource, fileSection } from './source.ts'
export type { A2aCard, A2aSourceOptions } from './source.ts'

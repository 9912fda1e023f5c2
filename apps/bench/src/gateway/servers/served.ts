/** A server that runs. */
export interface Served {
  readonly port: number
  /** What it can be asked for beside its port, CPU time and memory. @default nothing */
  readonly perform?: ((what: string, task: unknown) => Promise<unknown>) | undefined
}

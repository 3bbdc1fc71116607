declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  export interface System {
    React: { Fragment: unknown; createElement(kind: unknown, props: object | null, ...children: unknown[]): unknown };
    specActions: { updateResolvedSubtree(path: string[], value: unknown): unknown };
    specSelectors: { specJson(): { getIn(path: string[]): { toJS(): unknown } } };
  }
  export default function SwaggerUI(options: Record<string, unknown>): void;
}

declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  export interface System {
    React: { Fragment: unknown; createElement(kind: unknown, props: object | null, ...children: unknown[]): unknown };
  }
  export default function SwaggerUI(options: Record<string, unknown>): void;
}
